// Measures what polling dashboards cost the coordinator: many clients ask over
// HTTP once a second for the same few jobs, first while nothing changes, then
// while the jobs report every second; and streams of events. Measures a
// comera-server process over loopback.
//   bazel run -c opt //tests/bench:http_polling -- --pollers=1000 --json
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "comera/v1/training_service.grpc.pb.h"
#include "common/files.h"
#include "common/grpc_status.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "tests/bench/service/http_poll_load.h"
#include "tests/bench/service/http_watch_load.h"
#include "tests/bench/service/load_options.h"
#include "tests/bench/service/played_worker.h"
#include "tests/bench/service/server_process.h"
#include "tests/bench/service/submission_load.h"

namespace comera::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr absl::Duration kSetUpLimit = absl::Seconds(60);

struct Flags {
  HttpPollOptions poll;
  int jobs = 10;
  int seconds = 20;
  int streams = 4000;
  bool unconditional = false;
  std::string binary;
  std::string folder;
  bool json = false;
};

void Note(const std::string& text) { std::cerr << text << std::endl; }

double CpuSeconds(const ServerProcess& server) {
  const auto figures = server.Figures();
  return figures.ok() ? figures->cpu_seconds : 0;
}

absl::StatusOr<Json> Poll(const HttpPollOptions& options,
                          const ServerProcess& server) {
  HttpPollFigures figures;
  const absl::Time begin = absl::Now();
  const double before = CpuSeconds(server);
  RETURN_IF_ERROR(PollOverHttp(options, &figures));
  const double elapsed = absl::ToDoubleSeconds(absl::Now() - begin);
  const double used = CpuSeconds(server) - before;
  Json json;
  json["pollers"] = options.pollers;
  json["answers"] = figures.answers;
  // The second in which all clients connect is measured too, but has no
  // answers.
  json["answers_per_second"] = static_cast<double>(figures.answers) /
                               absl::ToDoubleSeconds(options.duration);
  json["server_cores"] = used / elapsed;
  json["server_us_per_answer"] =
      used * 1e6 / static_cast<double>(figures.answers);
  json["p50_ms"] = figures.latencies.Milliseconds(0.5);
  json["p99_ms"] = figures.latencies.Milliseconds(0.99);
  json["max_ms"] = figures.latencies.Milliseconds(1);
  json["share_304"] = static_cast<double>(figures.not_modified) /
                      static_cast<double>(figures.answers);
  json["body_bytes"] = figures.body_bytes;
  if (const auto process = server.Figures(); process.ok()) {
    json["server_rss_bytes"] = process->resident_bytes;
  }
  return json;
}

// Opens streams of one job, and ends the job.
absl::StatusOr<Json> Watch(const Flags& flags, const std::string& job,
                           const std::shared_ptr<grpc::Channel>& channel,
                           const ServerProcess& server) {
  Note(absl::StrCat(flags.streams, " streams of one job"));
  ASSIGN_OR_RETURN(const ProcessFigures before, server.Figures());
  HttpWatchers watchers;
  const absl::Time begin = absl::Now();
  RETURN_IF_ERROR(watchers.Open(
      flags.poll.address, absl::StrCat("/v1/", job, ":watch"), flags.streams));
  const absl::Time open = absl::Now();
  ASSIGN_OR_RETURN(const ProcessFigures after, server.Figures());
  grpc::ClientContext context;
  v1::CancelJobRequest cancel;
  cancel.set_name(job);
  v1::Job cancelled;
  const grpc::Status status = v1::TrainingService::NewStub(channel)->CancelJob(
      &context, cancel, &cancelled);
  if (!status.ok()) return FromGrpcStatus(status);
  RETURN_IF_ERROR(watchers.AwaitEnd());
  Json json;
  json["streams"] = flags.streams;
  json["bytes_per_stream"] =
      (after.resident_bytes - before.resident_bytes) / flags.streams;
  json["open_seconds"] = absl::ToDoubleSeconds(open - begin);
  json["end_seconds"] = absl::ToDoubleSeconds(absl::Now() - open);
  json["server_cpu_seconds"] = CpuSeconds(server) - before.cpu_seconds;
  return json;
}

absl::StatusOr<Json> Measure(Flags flags) {
  const std::string port_file =
      absl::StrCat(flags.folder, "/comera-http-port-", getpid());
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ServerProcess> server,
      ServerProcess::Start(flags.binary, flags.folder,
                           {"--http_listen=127.0.0.1:0",
                            absl::StrCat("--http_port_file=", port_file)}));
  ASSIGN_OR_RETURN(flags.poll.address, ReadFile(port_file));
  unlink(port_file.c_str());
  const Channels channels = Connect(server->address(), 1);
  PlayedWorker worker(channels[0], flags.jobs, absl::Seconds(1));
  SubmissionFigures submitted;
  RETURN_IF_ERROR(SubmitJobs(channels, LoadSpec(), flags.jobs, 1, &submitted));
  const absl::Time deadline = absl::Now() + kSetUpLimit;
  while (worker.ranks() < flags.jobs) {
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError("the jobs were not placed");
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
  for (const std::string& job : submitted.jobs) {
    flags.poll.paths.push_back("/v1/" + job);
  }
  Json result;
  Note(absl::StrCat(flags.poll.pollers, " pollers of ", flags.jobs,
                    " jobs that do not change"));
  ASSIGN_OR_RETURN(result["unchanged"], Poll(flags.poll, *server));
  Note("the same while each job reports once a second");
  worker.SetReporting(true);
  ASSIGN_OR_RETURN(result["training"], Poll(flags.poll, *server));
  Note("the same of the list of jobs");
  flags.poll.paths = {"/v1/jobs?pageSize=50&view=JOB_VIEW_BASIC"};
  ASSIGN_OR_RETURN(result["list"], Poll(flags.poll, *server));
  worker.SetReporting(false);
  RETURN_IF_ERROR(worker.status());
  // A job that waits ends as soon as it is cancelled.
  SubmissionFigures waiting;
  RETURN_IF_ERROR(SubmitJobs(channels, LoadSpec(), 1, 1, &waiting));
  ASSIGN_OR_RETURN(result["streams"],
                   Watch(flags, waiting.jobs[0], channels[0], *server));
  return result;
}

// The server in this program's runfiles, wherever it is started from.
std::string DefaultBinary() {
  std::error_code error;
  const std::string self =
      std::filesystem::read_symlink("/proc/self/exe", error).string();
  const std::string path = self + ".runfiles/comera/server/comera-server";
  return access(path.c_str(), X_OK) == 0 ? path : "comera-server";
}

void PrintTable(const Json& result) {
  for (const auto& [phase, figures] : result.items()) {
    std::cout << phase << "\n";
    for (const auto& [key, value] : figures.items()) {
      std::cout << absl::StrFormat("  %-24s %s\n", key, value.dump());
    }
  }
}

}  // namespace
}  // namespace comera::bench

int main(int argc, char** argv) {
  comera::bench::Flags flags;
  flags.binary = comera::bench::DefaultBinary();
  flags.folder = std::filesystem::temp_directory_path().string();
  CLI::App app("Cost of polling one coordinator over HTTP");
  app.add_option("--pollers", flags.poll.pollers,
                 "connections, each of which asks once a second")
      ->capture_default_str()
      ->check(CLI::Range(1, 20000));
  app.add_option("--jobs", flags.jobs, "that they ask for")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--seconds", flags.seconds, "of each phase")
      ->capture_default_str()
      ->check(CLI::Range(1, 3600));
  app.add_option("--streams", flags.streams, "of server-sent events")
      ->capture_default_str()
      ->check(CLI::Range(1, 20000));
  app.add_flag("--unconditional", flags.unconditional,
               "without If-None-Match: every answer has its body");
  app.add_option("--binary", flags.binary, "comera-server to start")
      ->capture_default_str();
  app.add_option("--folder", flags.folder, "where the server's folder is made")
      ->capture_default_str();
  app.add_flag("--json", flags.json, "one JSON object");
  CLI11_PARSE(app, argc, argv);
  flags.poll.duration = absl::Seconds(flags.seconds);
  flags.poll.conditional = !flags.unconditional;
  // Every connection needs a file descriptor.
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  const auto result = comera::bench::Measure(flags);
  if (!result.ok()) {
    std::cerr << "http_polling: " << result.status() << "\n";
    return 1;
  }
  if (flags.json) {
    std::cout << result->dump() << std::endl;
  } else {
    comera::bench::PrintTable(*result);
  }
  return 0;
}
