// Starts, supervises and stops the private coordinator and worker of `comera
// run`.

#include "client/embedded_cluster.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/access_client.h"
#include "client/child_process.h"
#include "client/private_folder.h"
#include "client/training_client.h"
#include "common/files.h"
#include "common/json.h"
#include "common/status_macros.h"

namespace comera::client {
namespace {

constexpr absl::Duration kLookInterval = absl::Milliseconds(50);
constexpr absl::Duration kMaxBackoff = absl::Seconds(5);
constexpr size_t kLogTailBytes = 1024;
constexpr char kWorker[] = "local";

}  // namespace

absl::StatusOr<std::unique_ptr<EmbeddedCluster>> EmbeddedCluster::Start(
    const Options& options) {
  const std::pair<const char*, const std::string*> binaries[] = {
      {"comera-server", &options.server_binary},
      {"comera-worker", &options.worker_binary},
      {"comera-trainer", &options.trainer_binary}};
  for (const auto& [name, path] : binaries) {
    if (path->empty() || access(path->c_str(), X_OK) != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot find ", name,
                       path->empty() ? " beside this program" : " at ", *path));
    }
  }
  std::unique_ptr<EmbeddedCluster> cluster(new EmbeddedCluster(options));
  RETURN_IF_ERROR(cluster->PrepareFolders());
  // A child dies with the thread that started it, so one thread starts all.
  cluster->supervisor_ =
      std::thread([raw = cluster.get()] { raw->Supervise(); });
  cluster->started_.Wait();
  RETURN_IF_ERROR(cluster->start_status_);
  return cluster;
}

EmbeddedCluster::EmbeddedCluster(const Options& options) : options_(options) {}

EmbeddedCluster::~EmbeddedCluster() {
  Stop();
  if (lock_descriptor_ >= 0) close(lock_descriptor_);
}

void EmbeddedCluster::Stop() {
  stop_.Notify();
  if (supervisor_.joinable()) supervisor_.join();
}

absl::Status EmbeddedCluster::PrepareFolders() {
  const std::string& root = options_.data_dir;
  const std::string lock = absl::StrCat(root, "/lock");
  // An earlier cluster left its lock.
  RETURN_IF_ERROR(MakePrivateFolder(
      root, options_.own_data_dir || access(lock.c_str(), F_OK) == 0));
  for (const char* folder : {"/server", "/worker", "/logs"}) {
    RETURN_IF_ERROR(MakeDirectories(absl::StrCat(root, folder)));
  }
  lock_descriptor_ = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_descriptor_ < 0 || flock(lock_descriptor_, LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("another `comera run` uses ", root,
                     "; wait for it or give another --data-dir"));
  }
  port_file_ = absl::StrCat(root, "/port");
  std::remove(port_file_.c_str());
  const std::string http_port_file = port_file_ + ".http";
  std::remove(http_port_file.c_str());
  security_.token_file = absl::StrCat(root, "/admin.token");
  worker_token_file_ = absl::StrCat(root, "/worker.token");
  server_.name = "coordinator";
  server_.log_path = absl::StrCat(root, "/logs/server.log");
  worker_.name = "worker";
  worker_.log_path = absl::StrCat(root, "/logs/worker.log");
  server_.arguments = {
      options_.server_binary,
      "--listen=127.0.0.1:0",
      "--http_listen=127.0.0.1:0",
      absl::StrCat("--data_dir=", root, "/server"),
      absl::StrCat("--port_file=", port_file_),
      absl::StrCat("--http_port_file=", http_port_file),
      absl::StrCat("--init_admin_token_file=", security_.token_file)};
  // The folder and what it holds belong to the only user.
  for (const char* limit :
       {"queued_jobs", "queue_share", "jobs", "job_bytes", "sweeps",
        "active_sweeps", "datasets", "dataset_bytes", "model_bytes"}) {
    server_.arguments.push_back(absl::StrCat("--user_", limit, "=0"));
  }
  return absl::OkStatus();
}

absl::Status EmbeddedCluster::StartChildren() {
  RETURN_IF_ERROR(StartChild(server_));
  RETURN_IF_ERROR(AwaitPort());
  // After a restart, clients and the worker find it at the same address.
  server_.arguments[1] = absl::StrCat("--listen=", address_);
  // Written before the other file; the cluster works without it.
  if (const auto http = ReadFile(port_file_ + ".http"); http.ok()) {
    http_address_ = *http;
    server_.arguments[2] = absl::StrCat("--http_listen=", http_address_);
  }
  RETURN_IF_ERROR(ProvideWorkerToken());
  RETURN_IF_ERROR(CancelLeftovers());
  worker_.arguments = {
      options_.worker_binary, absl::StrCat("--server=", address_),
      absl::StrCat("--name=", kWorker),
      absl::StrCat("--token_file=", worker_token_file_),
      absl::StrCat("--slots=", options_.slots),
      absl::StrCat("--data_dir=", options_.data_dir, "/worker"),
      // Nothing goes on when the command has ended.
      "--member_lease=0",
      // Whoever has the token may read all these files anyway, and run
      // programs.
      "--data_root=/", "--allow_programs",
      absl::StrCat("--trainer=", options_.trainer_binary)};
  worker_.arguments.insert(worker_.arguments.end(),
                           options_.worker_flags.begin(),
                           options_.worker_flags.end());
  return StartChild(worker_);
}

absl::Status EmbeddedCluster::AwaitPort() {
  const absl::Time deadline = absl::Now() + options_.start_timeout;
  while (true) {
    // Holds host:port; written atomically once the coordinator accepts calls.
    const absl::StatusOr<std::string> contents = ReadFile(port_file_);
    if (contents.ok()) {
      address_ = std::string(absl::StripAsciiWhitespace(*contents));
      const size_t colon = address_.rfind(':');
      int port = 0;
      if (colon != std::string::npos &&
          absl::SimpleAtoi(address_.substr(colon + 1), &port) && port > 0 &&
          port < 65536) {
        return absl::OkStatus();
      }
      return absl::UnavailableError(
          absl::StrCat("the coordinator told no address: ", address_));
    }
    if (const auto end = EndOfProcess(server_.pid)) {
      server_.pid = -1;
      return absl::UnavailableError(absl::StrCat(
          "the coordinator did not start: ", *end, LogTail(server_)));
    }
    if (absl::Now() >= deadline) {
      return absl::UnavailableError(absl::StrCat(
          "the coordinator did not start in time", LogTail(server_)));
    }
    if (stop_.WaitFor(kLookInterval)) {
      return absl::CancelledError("stopped");
    }
  }
}

absl::Status EmbeddedCluster::ProvideWorkerToken() {
  // The coordinator makes the first token only.
  if (access(security_.token_file.c_str(), R_OK) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(security_.token_file, ", the token of the coordinator in ",
                     options_.data_dir,
                     "/server, is missing: put it back, or give another "
                     "--data-dir"));
  }
  TrainingClient::Options options;
  options.timeout = options_.start_timeout;
  ChannelSecurity worker;
  worker.token_file = worker_token_file_;
  // Fails if an earlier run left no token.
  if (const auto channel =
          OpenChannel(address_, worker, ClientChannelArguments());
      channel.ok()) {
    const auto who = AccessClient(*channel, options).WhoAmI();
    if (who.ok() && who->token().worker()) return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const auto channel,
                   OpenChannel(address_, security_, ClientChannelArguments()));
  v1::CreateTokenRequest request;
  request.set_user(kWorker);
  request.set_worker(true);
  ASSIGN_OR_RETURN(const v1::CreateTokenResponse made,
                   AccessClient(channel, options).CreateToken(request));
  return WriteFileAtomically(worker_token_file_, made.secret() + "\n", 0600);
}

absl::Status EmbeddedCluster::CancelLeftovers() {
  TrainingClient::Options options;
  options.timeout = options_.start_timeout;
  options.security = security_;
  auto client = TrainingClient::Connect(address_, options);
  ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs,
                   client->List({v1::QUEUED, v1::STARTING, v1::RUNNING}, 0));
  for (const v1::Job& job : jobs) {
    if (job.name() == options_.kept_job) continue;
    RETURN_IF_ERROR(
        client->Cancel(job.name(), "the `comera run` that waited for it ended")
            .status());
    Note(absl::StrCat("cancelled ", job.name(), ", left by an earlier run"));
  }
  return absl::OkStatus();
}

absl::Status EmbeddedCluster::StartChild(Child& child) {
  const absl::StatusOr<pid_t> pid =
      StartProcess(child.arguments, child.log_path);
  RETURN_IF_ERROR(pid.status());
  child.pid = *pid;
  child.started = absl::Now();
  WriteStatusFile();
  return absl::OkStatus();
}

void EmbeddedCluster::WriteStatusFile() {
  if (options_.status_file.empty() || address_.empty() || worker_.pid < 0) {
    return;
  }
  const nlohmann::json status = {{"server", address_},
                                 {"server_pid", server_.pid},
                                 {"worker_pid", worker_.pid},
                                 {"data_dir", options_.data_dir},
                                 {"token_file", security_.token_file}};
  const absl::Status written =
      WriteFileAtomically(options_.status_file, JsonText(status) + "\n");
  if (!written.ok()) Note(std::string(written.message()));
}

void EmbeddedCluster::Supervise() {
  start_status_ = StartChildren();
  const bool started = start_status_.ok();
  started_.Notify();
  bool failed = !started;
  while (!stop_.WaitFor(kLookInterval)) {
    if (failed) continue;
    absl::Status status = CheckRunning(server_);
    if (status.ok()) status = CheckRunning(worker_);
    if (status.ok()) continue;
    failed = true;
    if (options_.on_failure) options_.on_failure(status);
  }
  // The worker stops first, so that it can still report how its members ended.
  StopChild(worker_);
  StopChild(server_);
}

absl::Status EmbeddedCluster::CheckRunning(Child& child) {
  const absl::Time now = absl::Now();
  if (child.pid < 0) {
    return now >= child.restart_at ? StartChild(child) : absl::OkStatus();
  }
  const std::optional<std::string> end = EndOfProcess(child.pid);
  if (!end) return absl::OkStatus();
  child.pid = -1;
  if (now - child.started > options_.quiet_time) child.restarts = 0;
  if (child.restarts >= options_.max_restarts) {
    return absl::UnavailableError(absl::StrCat(
        "the ", child.name, " keeps ending: ", *end, LogTail(child)));
  }
  absl::Duration pause = options_.restart_backoff;
  for (int i = 0; i < child.restarts && pause < kMaxBackoff; ++i) pause *= 2;
  child.restart_at = now + std::min(pause, kMaxBackoff);
  ++child.restarts;
  Note(absl::StrCat("the ", child.name, " ended (", *end,
                    "); starting it again"));
  return absl::OkStatus();
}

void EmbeddedCluster::StopChild(Child& child) {
  if (child.pid < 0) return;
  kill(child.pid, SIGTERM);
  const absl::Time deadline = absl::Now() + options_.stop_timeout;
  while (!EndOfProcess(child.pid)) {
    if (absl::Now() >= deadline) {
      // Kills the process group, which includes what the child started.
      kill(-child.pid, SIGKILL);
    }
    absl::SleepFor(absl::Milliseconds(5));
  }
  child.pid = -1;
}

std::string EmbeddedCluster::LogTail(const Child& child) const {
  absl::StatusOr<std::string> log = ReadFile(child.log_path);
  if (!log.ok()) return "";
  if (log->size() > kLogTailBytes) {
    *log = log->substr(log->size() - kLogTailBytes);
  }
  return absl::StrCat("; its log (", child.log_path, ") ends:\n",
                      absl::StripTrailingAsciiWhitespace(*log));
}

void EmbeddedCluster::Note(const std::string& note) const {
  if (options_.on_note) options_.on_note(note);
}

ClusterBinaries FindClusterBinaries(const std::string& folder) {
  const auto find = [&](const char* name, const char* bazel_folder) {
    for (const std::string& path :
         {absl::StrCat(folder, "/", name),
          absl::StrCat(folder, "/../", bazel_folder, "/", name)}) {
      if (access(path.c_str(), X_OK) == 0) {
        return std::filesystem::path(path).lexically_normal().string();
      }
    }
    return std::string();
  };
  return {find("comera-server", "server"), find("comera-worker", "worker"),
          find("comera-trainer", "worker/trainer")};
}

}  // namespace comera::client
