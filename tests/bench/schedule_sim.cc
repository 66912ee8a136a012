// schedule_sim: runs the scheduler on a simulated cluster and trace.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "nlohmann/json.hpp"
#include "tests/bench/schedule_pass_bench.h"
#include "tests/bench/schedule_simulation.h"
#include "tests/bench/schedule_trace.h"

namespace comera::bench {
namespace {

using Json = nlohmann::ordered_json;

Json Figures(std::vector<double> values) {
  if (values.empty()) return Json();
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<size_t>(share *
                                      static_cast<double>(values.size() - 1))];
  };
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return {{"count", values.size()},
          {"mean", sum / static_cast<double>(values.size())},
          {"p50", at(0.5)},
          {"p99", at(0.99)},
          {"max", values.back()}};
}

Json ToJson(const SimulationResult& result) {
  Json json = {{"utilisation", result.utilisation},
               {"share_fairness_jain", result.share_fairness},
               {"slowdown_fairness_jain", result.slowdown_fairness},
               {"mean_bounded_slowdown", result.mean_slowdown},
               {"makespan_hours", result.makespan_hours},
               {"finished", result.finished},
               {"preemptions", result.preemptions},
               {"resizes", result.resizes},
               {"longest_queue", result.longest_queue}};
  if (!result.pass_ms.empty()) json["pass_ms"] = Figures(result.pass_ms);
  for (const auto& [width, waits] : result.waits) {
    json["wait_seconds"][width] = Figures(waits);
  }
  json["urgent_wait_seconds"] = Figures(result.urgent_waits);
  return json;
}

void PrintRow(const std::string& name, const Json& value) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) {
      PrintRow(name + "." + key, inner);
    }
  } else {
    std::cout << name << " " << value.dump() << "\n";
  }
}

int Main(int argc, char** argv) {
  TraceOptions trace;
  SimulationOptions simulation;
  PassOptions pass;
  bool json = false, pass_only = false;
  double limit_ms = 0;
  CLI::App app("schedule_sim: the scheduler on a made-up cluster and trace");
  app.add_option("--workers", simulation.workers)->capture_default_str();
  app.add_option("--gpus_per_worker", simulation.gpus_per_worker)
      ->capture_default_str();
  app.add_option("--jobs", trace.jobs)->capture_default_str();
  app.add_option("--load", trace.load)->capture_default_str();
  app.add_option("--seed", trace.seed)->capture_default_str();
  app.add_flag("--pass_only", pass_only,
               "Only the time of passes of a whole coordinator");
  app.add_option("--queued", pass.queued, "--pass_only: jobs that wait")
      ->capture_default_str();
  app.add_option("--limit_ms", limit_ms,
                 "--pass_only: fail if a median pass takes longer");
  app.add_flag("--json", json, "One JSON object on standard output");
  CLI11_PARSE(app, argc, argv);
  pass.workers = simulation.workers;
  pass.gpus_per_worker = simulation.gpus_per_worker;
  trace.slots = int64_t{simulation.workers} * simulation.gpus_per_worker;

  Json result = {{"workers", simulation.workers},
                 {"gpus_per_worker", simulation.gpus_per_worker}};
  bool too_slow = false;
  std::cerr << "passes of a coordinator with " << pass.queued
            << " queued jobs\n";
  for (const PassTime& time : MeasurePasses(pass)) {
    result["coordinator_pass_ms"][time.name] = Figures(time.ms);
    const double median =
        result["coordinator_pass_ms"][time.name]["p50"].get<double>();
    too_slow = too_slow || (limit_ms > 0 && median > limit_ms);
  }
  if (!pass_only) {
    result["jobs"] = trace.jobs;
    result["load"] = trace.load;
    result["seed"] = trace.seed;
    const std::vector<TraceJob> jobs = MakeTrace(trace);
    for (const auto& [name, policy] :
         {std::make_pair("comera", Policy::kComera),
          std::make_pair("fifo", Policy::kFifo)}) {
      simulation.policy = policy;
      result[name] = ToJson(Simulate(jobs, simulation, [&](int64_t finished) {
        std::fprintf(stderr, "\r%s: %lld of %lld jobs ended", name,
                     static_cast<long long>(finished),
                     static_cast<long long>(trace.jobs));
      }));
      std::cerr << "\n";
    }
  }
  if (json) {
    std::cout << result.dump(2) << "\n";
  } else {
    for (const auto& [key, value] : result.items()) PrintRow(key, value);
  }
  if (too_slow) std::cerr << "a pass took more than " << limit_ms << " ms\n";
  return too_slow ? 1 : 0;
}

}  // namespace
}  // namespace comera::bench

int main(int argc, char** argv) { return comera::bench::Main(argc, argv); }
