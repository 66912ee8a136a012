// Draws random jobs with realistic run times, widths and arrivals.

#include "tests/bench/schedule_trace.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace comera::bench {
namespace {

constexpr double kMedianSeconds = 720;
constexpr double kSigma = 1.8;
constexpr double kMaxSeconds = 3 * 86400.0;

}  // namespace

std::vector<TraceJob> MakeTrace(const TraceOptions& options) {
  std::mt19937_64 random(options.seed);
  const auto uniform = [&] {
    return static_cast<double>(random() >> 11) / 9007199254740992.0;
  };
  // The Box-Muller transform, because the library's distributions differ
  // between versions.
  const auto normal = [&] {
    return std::sqrt(-2 * std::log(1 - uniform())) *
           std::cos(2 * M_PI * uniform());
  };
  std::vector<TraceJob> jobs(options.jobs);
  double work = 0;
  for (TraceJob& job : jobs) {
    const double seconds = std::clamp(
        kMedianSeconds * std::exp(kSigma * normal()), 10.0, kMaxSeconds);
    int width = 0;
    for (double draw = uniform(); draw > 0.5 && width < 8; draw = uniform()) {
      ++width;
    }
    job.processes = static_cast<int32_t>(
        std::min<int64_t>(1 << width, std::max<int64_t>(1, options.slots / 4)));
    job.run_time = absl::Seconds(seconds);
    if (uniform() < 0.7) job.time_limit = job.run_time * (1 + 2 * uniform());
    const double level = uniform();
    job.priority = level < 0.9 ? 0 : level < 0.98 ? 10 : 100;
    // The square favours the first users.
    job.user = static_cast<int32_t>(options.users * std::pow(uniform(), 2));
    job.queue = job.user % options.queues;
    if (job.processes >= 4 && uniform() < 0.1) {
      for (int32_t size = job.processes; size >= job.processes / 4; size /= 2) {
        job.sizes.push_back(size);
      }
    }
    work += seconds * job.processes;
  }
  const double span = work / (options.slots * options.load);
  double time = 0;
  for (TraceJob& job : jobs) {
    const double wave = 1 + 0.5 * std::sin(2 * M_PI * time / 86400);
    time += -std::log(1 - uniform()) * span / options.jobs / wave;
    job.arrival = absl::UnixEpoch() + absl::Seconds(1'000'000 + time);
  }
  return jobs;
}

}  // namespace comera::bench
