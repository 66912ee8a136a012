// comera run: trains a job on this machine alone, from start to end.
#include <algorithm>
#include <memory>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/live/watch_job.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/interrupts.h"
#include "client/cli/session/spec_input.h"
#include "client/cli/verbs/model_download.h"
#include "client/cli/verbs/verbs.h"
#include "client/embedded_cluster.h"

namespace comera::client {
namespace {

// How long a cancelled job may take to end before everything is stopped.
constexpr absl::Duration kCancelTimeout = absl::Seconds(20);

struct Arguments {
  SpecInput spec;
  std::string data_dir;
  std::string model_dir;
  std::string status_file;
  ClusterBinaries binaries;
};

// Stops the client in use when Ctrl-C or a dead cluster asks for it, at any
// time.
class Stopper {
 public:
  void Use(TrainingClient* client) {
    std::lock_guard<std::mutex> lock(mutex_);
    client_ = client;
    if (stopped_ && client_ != nullptr) client_->Stop();
  }
  void Stop() {
    std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    if (client_ != nullptr) client_->Stop();
  }
  // Called when the cluster is beyond repair.
  void Fail(const absl::Status& status) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      failure_ = status;
    }
    Stop();
  }
  absl::Status failure() {
    std::lock_guard<std::mutex> lock(mutex_);
    return failure_;
  }

 private:
  // Guards all members below.
  std::mutex mutex_;
  TrainingClient* client_ = nullptr;
  bool stopped_ = false;
  absl::Status failure_;
};

std::string OrElse(const std::string& value, const std::string& otherwise) {
  return value.empty() ? otherwise : value;
}

// Makes a path of the command line absolute.
std::string Absolute(const std::string& path, const Session& session) {
  if (path.empty() || path[0] == '/') return path;
  return absl::StrCat(session.env.working_folder, "/", path);
}

EmbeddedCluster::Options ClusterOptions(const Arguments& arguments,
                                        const v1::JobSpec& spec,
                                        const Session& session,
                                        Stopper* stopper) {
  const ClusterBinaries found = FindClusterBinaries(session.env.binary_folder);
  const ClusterBinaries& given = arguments.binaries;
  EmbeddedCluster::Options options;
  options.server_binary = OrElse(Absolute(given.server, session), found.server);
  options.worker_binary = OrElse(Absolute(given.worker, session), found.worker);
  options.trainer_binary =
      OrElse(Absolute(given.trainer, session), found.trainer);
  options.data_dir =
      OrElse(Absolute(arguments.data_dir, session), session.env.state_folder);
  options.status_file = Absolute(arguments.status_file, session);
  options.slots = std::max(spec.resources().processes(), 1);
  options.on_note = [&session](const std::string& note) { session.Note(note); };
  options.on_failure = [stopper](const absl::Status& status) {
    stopper->Fail(status);
  };
  return options;
}

TrainingClient::Options ClientOptions() {
  // A coordinator that was killed is restarted within seconds.
  TrainingClient::Options options;
  options.timeout = absl::Seconds(60);
  return options;
}

// Asks the job to stop and gives its members time to end.
void CancelJob(const std::string& address, const std::string& name,
               const Session& session) {
  session.Note(absl::StrCat("cancelling ", name));
  TrainingClient::Options options;
  options.timeout = kCancelTimeout;
  auto client = TrainingClient::Connect(address, options);
  const auto job = client->Cancel(name, "interrupted");
  if (!job.ok() || IsFinal(job->state())) return;
  TrainingClient::WatchOptions watch;
  watch.deadline = absl::Now() + kCancelTimeout;
  // Everything is stopped next, whatever the result.
  client->Watch(name, watch, {}, {}).IgnoreError();
}

// Follows the job from submission to its end; returns an exit code.
int Follow(const v1::JobSpec& spec, const Arguments& arguments,
           const Session& session, TrainingClient& client,
           WatchPrinter& printer, std::string* name) {
  const absl::StatusOr<v1::Job> submitted = client.Submit(spec);
  if (absl::IsCancelled(submitted.status())) return kExitInterrupted;
  if (!submitted.ok()) return session.FailRpc(submitted.status());
  *name = submitted->name();
  session.Note(absl::StrCat("submitted ", *name));
  const absl::StatusOr<v1::Job> job = client.Watch(
      *name, {}, [&](const v1::Job& j) { printer.OnJob(j); },
      [&](const v1::JobEvent& e) { printer.OnEvent(e); });
  // The reason is printed by whatever stopped the client.
  if (absl::IsCancelled(job.status())) return kExitInterrupted;
  if (!job.ok()) return session.FailRpc(job.status());
  std::string directory;
  int code = ExitCodeOfJob(*job);
  if (!job->models().empty()) {
    directory = OrElse(Absolute(arguments.model_dir, session),
                       absl::StrCat(session.env.working_folder,
                                    "/comera-models/", LastSegment(*name)));
    const absl::Status status =
        DownloadModel(client, *job->models().rbegin(), directory);
    if (!status.ok()) {
      directory.clear();
      code = session.Fail(absl::StrCat("cannot download the model: ",
                                       std::string(status.message())),
                          kExitClientError);
    }
  }
  printer.Finish(*job, directory);
  return code;
}

int Run(const Arguments& arguments, const Session& session) {
  const std::optional<v1::JobSpec> spec =
      ReadSoundSpec(arguments.spec, session);
  if (!spec) return kExitClientError;
  Stopper stopper;
  Interrupts interrupts([&] { stopper.Stop(); });
  auto cluster = EmbeddedCluster::Start(
      ClusterOptions(arguments, *spec, session, &stopper));
  if (!cluster.ok()) {
    return session.Fail(std::string(cluster.status().message()),
                        kExitClientError);
  }
  if (session.verbose) {
    session.Note(absl::StrCat("coordinator: ", (*cluster)->address()));
  }
  if (!(*cluster)->http_address().empty()) {
    session.Note(
        absl::StrCat("dashboard: http://", (*cluster)->http_address(), "/"));
  }
  auto client = TrainingClient::Connect((*cluster)->address(), ClientOptions());
  stopper.Use(client.get());
  WatchPrinter printer(session);
  std::string name;
  int code = kExitOk;
  if (!interrupts.happened()) {
    code = Follow(*spec, arguments, session, *client, printer, &name);
  }
  stopper.Use(nullptr);
  if (!stopper.failure().ok()) {
    code = session.Fail(std::string(stopper.failure().message()),
                        kExitClientError);
  } else if (interrupts.happened()) {
    if (!name.empty()) CancelJob((*cluster)->address(), name, session);
    code = kExitInterrupted;
  }
  (*cluster)->Stop();
  return code;
}

}  // namespace

Verb RunVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {"run",
               "Run a job on this machine: coordinator and worker included",
               SpecArguments(&arguments->spec), nullptr};
  const Argument more[] = {
      {"--data-dir",
       "State and logs (~/.local/state/comera)",
       &arguments->data_dir,
       false,
       {}},
      {"--model-dir",
       "Where the model goes (./comera-models/JOB)",
       &arguments->model_dir,
       false,
       {}},
      {"--status-file",
       "Write pids and address there as JSON",
       &arguments->status_file,
       false,
       {}},
      {"--server-binary",
       "comera-server to start",
       &arguments->binaries.server,
       false,
       {}},
      {"--worker-binary",
       "comera-worker to start",
       &arguments->binaries.worker,
       false,
       {}},
      {"--trainer-binary",
       "comera-trainer for the worker",
       &arguments->binaries.trainer,
       false,
       {}},
  };
  verb.arguments.insert(verb.arguments.end(), std::begin(more), std::end(more));
  verb.examples =
      R"(  comera run docs/examples/quickstart_code_mlm.yaml
  comera run job.yaml --set resources.processes=1 --model-dir ./model
  comera run job.yaml -o json          # events as JSON lines)";
  verb.run = [=] { return Run(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
