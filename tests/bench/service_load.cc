// What one coordinator carries: durable submissions, status reads under many
// pollers, event streams. Measures a comera-server process over loopback.
//   bazel run -c opt //tests/bench:service_load -- --submissions=20000
//     --clients=32 --pollers=1000 --watchers=5000 --json
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "tests/bench/service/load_options.h"
#include "tests/bench/service/played_worker.h"
#include "tests/bench/service/poll_load.h"
#include "tests/bench/service/server_process.h"
#include "tests/bench/service/submission_load.h"
#include "tests/bench/service/watch_load.h"
#include "tests/bench/service/worker_crowd.h"

namespace comera::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr absl::Duration kSetUpLimit = absl::Seconds(60);
// Higher than the backlog's, so that watched jobs are placed.
constexpr int kWatchedPriority = 100;

struct Flags {
  LoadOptions load;
  std::string server, binary, folder;
  std::vector<std::string> server_flags;
  int report_ms = 1000, phase_seconds = 20;
  bool json = false;
};

void Note(const std::string& text) { std::cerr << text << std::endl; }

// Measures the processor time of the server and of this program since the last
// Mark().
class CpuMeter {
 public:
  explicit CpuMeter(const ServerProcess* server) : server_(server) { Mark(); }

  void Mark() {
    begin_ = absl::Now();
    own_ = Own();
    servers_ = Servers();
  }

  void Put(Json* json) const {
    const double elapsed = absl::ToDoubleSeconds(absl::Now() - begin_);
    const double own = Own() - own_;
    (*json)["client_cpu_seconds"] = own;
    (*json)["client_cores"] = own / elapsed;
    if (server_ == nullptr) return;
    const double servers = Servers() - servers_;
    (*json)["server_cpu_seconds"] = servers;
    (*json)["server_cores"] = servers / elapsed;
  }

 private:
  static double Own() {
    const auto figures = ReadFigures(getpid());
    return figures.ok() ? figures->cpu_seconds : 0;
  }
  double Servers() const {
    if (server_ == nullptr) return 0;
    const auto figures = server_->Figures();
    return figures.ok() ? figures->cpu_seconds : 0;
  }

  const ServerProcess* const server_;
  absl::Time begin_;
  double own_ = 0, servers_ = 0;
};

void PutMemory(const ServerProcess* server, Json* json) {
  if (server == nullptr) return;
  const auto figures = server->Figures();
  if (!figures.ok()) return;
  (*json)["server_rss_bytes"] = figures->resident_bytes;
  (*json)["server_peak_rss_bytes"] = figures->peak_resident_bytes;
}

// Polls for a condition that offers no notification.
template <typename Condition>
absl::Status Await(const std::string& what, Condition condition) {
  const absl::Time deadline = absl::Now() + kSetUpLimit;
  while (!condition()) {
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError(absl::StrCat("waited for ", what));
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
  return absl::OkStatus();
}

class Benchmark {
 public:
  Benchmark(const LoadOptions& options, const std::string& address,
            ServerProcess* server)
      : options_(options),
        server_(server),
        channels_(Connect(address, options.connections)),
        worker_channel_(Connect(address, 1)),
        cpu_(server) {}

  absl::StatusOr<Json> Run() {
    PutMemory(server_, &result_["idle"]);
    if (options_.workers > 0) {
      RETURN_IF_ERROR(Reconnect());
      return result_;
    }
    RETURN_IF_ERROR(StartWatchedJobs());
    RETURN_IF_ERROR(Submit());
    RETURN_IF_ERROR(Poll("status"));
    RETURN_IF_ERROR(Watch());
    RETURN_IF_ERROR(worker_->status());
    return result_;
  }

 private:
  absl::Status Reconnect() {
    constexpr int kSlots = 2;
    if (server_ == nullptr) {
      return absl::InvalidArgumentError(
          "--workers: needs a private server, which is killed: leave --server "
          "out");
    }
    WorkerCrowd crowd(server_->address(), options_.workers, kSlots);
    RETURN_IF_ERROR(crowd.Round(nullptr));
    v1::JobSpec spec = LoadSpec();
    spec.mutable_resources()->set_processes(kSlots);
    SubmissionFigures submitted;
    RETURN_IF_ERROR(SubmitJobs(channels_, spec,
                               options_.workers + options_.workers / 2,
                               options_.clients, &submitted));
    const int members = options_.workers * kSlots;
    Note(absl::StrCat("waiting until ", members, " members run"));
    absl::Status round;
    RETURN_IF_ERROR(Await("the placement of the members", [&] {
      round = crowd.Round(nullptr);
      return !round.ok() || crowd.members() == members;
    }));
    RETURN_IF_ERROR(round);
    // They run.
    RETURN_IF_ERROR(crowd.Round(nullptr));
    Note("killing the server");
    server_->Kill();
    const absl::Time killed = absl::Now();
    RETURN_IF_ERROR(server_->Start());
    const absl::Time up = absl::Now();
    cpu_.Mark();
    Latencies latencies;
    RETURN_IF_ERROR(crowd.Round(&latencies));
    const absl::Time served = absl::Now();
    if (crowd.members() != members) {
      return absl::InternalError(
          absl::StrCat(crowd.members(), " of ", members, " members were kept"));
    }
    Json& json = result_["reconnect"];
    json["workers"] = options_.workers;
    json["members"] = members;
    json["jobs_waiting"] = options_.workers / 2;
    json["restart_seconds"] = absl::ToDoubleSeconds(up - killed);
    json["all_served_seconds"] = absl::ToDoubleSeconds(served - up);
    json["p50_ms"] = latencies.Milliseconds(0.5);
    json["p99_ms"] = latencies.Milliseconds(0.99);
    cpu_.Put(&json);
    PutMemory(server_, &json);
    return absl::OkStatus();
  }

  absl::Status StartWatchedJobs() {
    worker_.emplace(worker_channel_[0], options_.watched_jobs,
                    options_.report_interval);
    v1::JobSpec spec = LoadSpec();
    spec.set_priority(kWatchedPriority);
    SubmissionFigures figures;
    RETURN_IF_ERROR(
        SubmitJobs(channels_, spec, options_.watched_jobs, 1, &figures));
    watched_ = figures.jobs;
    Note(absl::StrCat("waiting until ", watched_.size(), " jobs train"));
    return Await("the placement of the watched jobs",
                 [&] { return worker_->ranks() == options_.watched_jobs; });
  }

  absl::Status Submit() {
    Note(absl::StrCat("submitting ", options_.submissions, " jobs from ",
                      options_.clients, " clients"));
    SubmissionFigures figures;
    cpu_.Mark();
    RETURN_IF_ERROR(SubmitJobs(channels_, LoadSpec(), options_.submissions,
                               options_.clients, &figures));
    Json& json = result_["submissions"];
    json["jobs"] = figures.jobs.size();
    json["clients"] = options_.clients;
    json["seconds"] = absl::ToDoubleSeconds(figures.elapsed);
    json["per_second"] = static_cast<double>(figures.jobs.size()) /
                         absl::ToDoubleSeconds(figures.elapsed);
    json["p50_ms"] = figures.latencies.Milliseconds(0.5);
    json["p99_ms"] = figures.latencies.Milliseconds(0.99);
    cpu_.Put(&json);
    PutMemory(server_, &json);
    if (server_ != nullptr) json["store_bytes"] = server_->StoreBytes();
    polled_ = figures.jobs.empty() ? watched_ : std::move(figures.jobs);
    return absl::OkStatus();
  }

  absl::Status Poll(const std::string& name) {
    Note(absl::StrCat(options_.pollers, " pollers, once a second each, for ",
                      absl::FormatDuration(options_.phase)));
    PollFigures figures;
    cpu_.Mark();
    PollJobs(channels_, polled_, options_.pollers, options_.phase, &figures);
    RETURN_IF_ERROR(figures.first_error);
    Json& json = result_[name];
    json["pollers"] = options_.pollers;
    json["reads"] = figures.latencies.size();
    json["p50_ms"] = figures.latencies.Milliseconds(0.5);
    json["p99_ms"] = figures.latencies.Milliseconds(0.99);
    json["max_ms"] = figures.latencies.Milliseconds(1);
    json["client_late_p99_ms"] = figures.send_delay.Milliseconds(0.99);
    cpu_.Put(&json);
    PutMemory(server_, &json);
    return absl::OkStatus();
  }

  absl::Status Watch() {
    if (options_.watchers == 0) return absl::OkStatus();
    Note(absl::StrCat("opening ", options_.watchers, " streams over ",
                      channels_.size(), " connections"));
    Json& json = result_["watch"];
    int64_t before = 0;
    if (server_ != nullptr) {
      ASSIGN_OR_RETURN(const ProcessFigures figures, server_->Figures());
      before = figures.resident_bytes;
    }
    WatchLoad watch(channels_, watched_, options_.watchers,
                    [this](int64_t step) { return worker_->DueTime(step); });
    RETURN_IF_ERROR(Await("the streams to open", [&] {
      return watch.open() + watch.ended() == options_.watchers;
    }));
    RETURN_IF_ERROR(watch.first_error());
    json["streams"] = watch.open();
    json["connections"] = channels_.size();
    json["jobs"] = watched_.size();
    Note(absl::StrCat(watched_.size(), " jobs report every ",
                      absl::FormatDuration(options_.report_interval), " for ",
                      absl::FormatDuration(options_.phase)));
    worker_->SetReporting(true);
    watch.SetMeasuring(true);
    cpu_.Mark();
    absl::SleepFor(options_.phase);
    Figures(watch, before, &json);
    watch.SetMeasuring(false);
    if (options_.pollers > 0) RETURN_IF_ERROR(Poll("status_while_watching"));
    worker_->SetReporting(false);
    return watch.first_error();
  }

  void Figures(const WatchLoad& watch, int64_t before, Json* json) {
    (*json)["events_delivered"] = watch.events();
    (*json)["events_per_second"] = static_cast<double>(watch.events()) /
                                   absl::ToDoubleSeconds(options_.phase);
    (*json)["samples_dropped"] = watch.dropped();
    (*json)["p50_ms"] = watch.latencies().Milliseconds(0.5);
    (*json)["p99_ms"] = watch.latencies().Milliseconds(0.99);
    (*json)["max_ms"] = watch.latencies().Milliseconds(1);
    cpu_.Put(json);
    PutMemory(server_, json);
    if (server_ == nullptr) return;
    if (const auto figures = server_->Figures(); figures.ok()) {
      (*json)["bytes_per_stream"] =
          (figures->resident_bytes - before) / options_.watchers;
    }
  }

  const LoadOptions options_;
  ServerProcess* const server_;
  const Channels channels_, worker_channel_;
  CpuMeter cpu_;
  std::optional<PlayedWorker> worker_;
  std::vector<std::string> watched_, polled_;
  Json result_;
};

// The server in this program's runfiles, wherever it is started from.
std::string DefaultBinary() {
  std::error_code error;
  const std::string self =
      std::filesystem::read_symlink("/proc/self/exe", error).string();
  for (const std::string& root :
       {self + ".runfiles/comera",
        std::string(getenv("TEST_SRCDIR") ? getenv("TEST_SRCDIR") : "") +
            "/comera"}) {
    const std::string path = root + "/server/comera-server";
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "comera-server";
}

void PrintTable(const Json& result) {
  for (const auto& [phase, figures] : result.items()) {
    std::cout << phase << "\n";
    for (const auto& [key, value] : figures.items()) {
      std::cout << absl::StrFormat("  %-24s %s\n", key, value.dump());
    }
  }
}

absl::Status Main(Flags flags) {
  flags.load.report_interval = absl::Milliseconds(flags.report_ms);
  flags.load.phase = absl::Seconds(flags.phase_seconds);
  // Every connection needs a file descriptor.
  rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  std::unique_ptr<ServerProcess> server;
  std::string address = flags.server;
  if (address.empty()) {
    ASSIGN_OR_RETURN(server, ServerProcess::Start(flags.binary, flags.folder,
                                                  flags.server_flags));
    address = server->address();
  }
  Note(absl::StrCat("server at ", address));
  ASSIGN_OR_RETURN(const Json result,
                   Benchmark(flags.load, address, server.get()).Run());
  if (flags.json) {
    std::cout << result.dump() << std::endl;
  } else {
    PrintTable(result);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace comera::bench

int main(int argc, char** argv) {
  comera::bench::Flags flags;
  comera::bench::LoadOptions& load = flags.load;
  flags.binary = comera::bench::DefaultBinary();
  flags.folder = std::filesystem::temp_directory_path().string();
  CLI::App app("Load on one coordinator: submissions, status reads, streams");
  const CLI::Range counts(0, 1000000);
  app.add_option("--submissions", load.submissions, "jobs to submit")
      ->capture_default_str()
      ->check(counts);
  app.add_option("--clients", load.clients, "that submit, one job each at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000));
  app.add_option("--pollers", load.pollers, "that ask once a second")
      ->capture_default_str()
      ->check(counts);
  app.add_option("--watchers", load.watchers, "streams of events")
      ->capture_default_str()
      ->check(counts);
  app.add_option("--watched_jobs", load.watched_jobs,
                 "whose events are streamed")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_option("--report_ms", flags.report_ms,
                 "each watched job reports once in this time")
      ->capture_default_str()
      ->check(CLI::Range(10, 5000));
  app.add_option("--seconds", flags.phase_seconds,
                 "of polling, of watching and of both")
      ->capture_default_str()
      ->check(CLI::Range(1, 3600));
  app.add_option("--connections", load.connections, "that clients share")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000));
  app.add_option("--workers", load.workers,
                 "that come back at once to a coordinator that was killed, "
                 "with two members each; 0: the other loads are measured")
      ->capture_default_str()
      ->check(CLI::Range(0, 20000));
  app.add_option("--server", flags.server,
                 "one that runs already, in place of a private one; its memory "
                 "and processor time are then not measured");
  app.add_option("--binary", flags.binary, "comera-server to start")
      ->capture_default_str();
  app.add_option("--folder", flags.folder,
                 "where the private server's folder is made: its disk is "
                 "measured too")
      ->capture_default_str();
  app.add_option("--server_flag", flags.server_flags,
                 "one more flag of the private server; may be repeated");
  app.add_flag("--json", flags.json, "one JSON object");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = comera::bench::Main(flags);
  if (!status.ok()) std::cerr << "service_load: " << status << "\n";
  return status.ok() ? 0 : 1;
}
