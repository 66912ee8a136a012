// comera run: trains a job on this machine alone, from start to end.
#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/live/sweep_view.h"
#include "client/cli/live/watch_job.h"
#include "client/cli/output/message_text.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/interrupts.h"
#include "client/cli/session/spec_input.h"
#include "client/cli/verbs/model_download.h"
#include "client/cli/verbs/sweep_submit.h"
#include "client/cli/verbs/url_access.h"
#include "client/cli/verbs/verbs.h"
#include "client/embedded_cluster.h"
#include "client/job_file.h"
#include "client/search/auto_job.h"
#include "client/sweep_client.h"
#include "common/rpc_channel.h"
#include "proto/data_url.h"

namespace comera::client {
namespace {

// How long an interrupted job may take to save its state before everything is
// stopped, and how often it is asked.
constexpr absl::Duration kPauseTimeout = absl::Seconds(60);
constexpr absl::Duration kStatePoll = absl::Milliseconds(200);

struct Arguments {
  SpecInput spec;
  // With --auto, spec.file names data.
  bool automatic = false;
  AutoRequest request;
  bool dry_run = false;
  std::string data_dir;
  std::string model_dir;
  // Download also over another model.
  bool force = false;
  // A job of an earlier run that goes on, in place of a new one.
  std::string resume;
  int64_t processes = 1;
  std::string status_file;
  UrlAccess urls;
  ClusterBinaries binaries;
};

// Stops the client in use when Ctrl-C or a dead cluster asks for it, at any
// time.
class Stopper {
 public:
  // `stop` ends the client's calls; null: none is in use.
  void Use(std::function<void()> stop) {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = std::move(stop);
    if (stopped_ && stop_ != nullptr) stop_();
  }
  void Stop() {
    std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
    if (stop_ != nullptr) stop_();
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
  std::mutex mutex_;
  std::function<void()> stop_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
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
  options.own_data_dir = arguments.data_dir.empty();
  options.status_file = Absolute(arguments.status_file, session);
  options.slots = std::max(spec.resources().processes(), 1);
  options.kept_job = arguments.resume;
  UrlAccess urls = arguments.urls;
  urls.data_ca = Absolute(urls.data_ca, session);
  urls.s3_credentials_file = Absolute(urls.s3_credentials_file, session);
  options.worker_flags = WorkerFlags(urls);
  options.on_note = [&session](const std::string& note) { session.Note(note); };
  options.on_failure = [stopper](const absl::Status& status) {
    stopper->Fail(status);
  };
  return options;
}

TrainingClient::Options ClientOptions(const EmbeddedCluster& cluster) {
  // A coordinator that was killed is restarted within seconds.
  TrainingClient::Options options;
  options.security = cluster.security();
  options.timeout = absl::Seconds(60);
  return options;
}

// The command that goes on with the job.
std::string ResumeCommand(const std::string& name, int64_t processes,
                          const Arguments& arguments) {
  return absl::StrCat(
      "comera run --resume ", LastSegment(name),
      processes > 1 ? absl::StrCat(" --processes ", processes) : "",
      arguments.data_dir.empty() ? "" : " --data-dir " + arguments.data_dir,
      arguments.model_dir.empty() ? "" : " --model-dir " + arguments.model_dir);
}

// Has the job save its state, so that a later run can go on with it.
void PauseJob(const EmbeddedCluster& cluster, const std::string& name,
              int64_t processes, const Arguments& arguments,
              const Session& session) {
  session.Note(absl::StrCat("interrupted; saving the state of ", name));
  TrainingClient::Options options = ClientOptions(cluster);
  options.timeout = kPauseTimeout;
  auto client = TrainingClient::Connect(cluster.address(), options);
  absl::StatusOr<v1::Job> job = client->Pause(name, "interrupted");
  const absl::Time deadline = absl::Now() + kPauseTimeout;
  while (job.ok() && job->state() != v1::PAUSED && !IsFinal(job->state()) &&
         absl::Now() < deadline) {
    absl::SleepFor(kStatePoll);
    job = client->Get(name);
  }
  if (job.ok() && IsFinal(job->state())) {
    session.Note(absl::StrCat(name, " had ended: ", StateText(*job)));
    return;
  }
  const std::string command = ResumeCommand(name, processes, arguments);
  if (!job.ok() || job->state() != v1::PAUSED) {
    session.Note(
        absl::StrCat(name, " did not save its state (",
                     job.ok() ? StateText(*job)
                              : Printable(std::string(job.status().message())),
                     "); go on from its last checkpoint with: ", command));
    return;
  }
  session.Note(absl::StrCat(
      name, " is kept",
      job->checkpoints().empty()
          ? ""
          : absl::StrCat(" at step ", job->checkpoints().rbegin()->step()),
      "; go on with: ", command));
}

// The job that is to go on, once it is not being cancelled any more: its
// members of an earlier run are gone when the worker has reported.
absl::StatusOr<v1::Job> GetSettled(const std::string& name,
                                   TrainingClient& client) {
  absl::StatusOr<v1::Job> job = client.Get(name);
  while (job.ok() && job->state() == v1::CANCELLING) {
    absl::SleepFor(kStatePoll);
    job = client.Get(name);
  }
  return job;
}

// The folder for the model of the job of this name.
std::string ModelFolder(const std::string& job, const Arguments& arguments,
                        const Session& session) {
  return OrElse(Absolute(arguments.model_dir, session),
                absl::StrCat(session.env.working_folder, "/comera-models/",
                             LastSegment(job)));
}

// Downloads the job's newest model. Returns the folder, or "" and an error's
// exit code in `code`; "" if the job has none.
std::string FetchModel(const v1::Job& job, const Arguments& arguments,
                       const Session& session, TrainingClient& client,
                       int* code) {
  if (job.models().empty()) return "";
  const std::string directory = ModelFolder(job.name(), arguments, session);
  const absl::Status status =
      DownloadModel(client, *job.models().rbegin(), directory, arguments.force);
  if (status.ok()) return directory;
  *code = session.Fail(absl::StrCat("cannot download the model: ",
                                    std::string(status.message())),
                       kExitClientError);
  return "";
}

// Follows the job from submission to its end; returns an exit code.
int Follow(const v1::JobSpec& spec, const Arguments& arguments,
           const Session& session, TrainingClient& client, std::string* name) {
  WatchPrinter printer(session);
  const bool resumes = !arguments.resume.empty();
  if (resumes) {
    const absl::StatusOr<v1::Job> known = GetSettled(*name, client);
    if (absl::IsCancelled(known.status())) return kExitInterrupted;
    if (!known.ok()) return session.FailRpc(known.status());
    const int64_t processes = known->spec().resources().processes();
    if (processes > arguments.processes) {
      return session.Fail(
          absl::StrCat(*name, " has ", processes, " processes; go on with: ",
                       ResumeCommand(*name, processes, arguments)),
          kExitUsage);
    }
  }
  const absl::StatusOr<v1::Job> begun =
      resumes ? client.Resume(*name) : client.Submit(spec);
  if (absl::IsCancelled(begun.status())) return kExitInterrupted;
  if (!begun.ok()) return session.FailRpc(begun.status());
  *name = begun->name();
  session.Note(absl::StrCat(resumes ? "resumed " : "submitted ", *name));
  const absl::StatusOr<v1::Job> job = client.Watch(
      *name, {}, [&](const v1::Job& j) { printer.OnJob(j); },
      [&](const v1::JobEvent& e) { printer.OnEvent(e); });
  // The reason is printed by whatever stopped the client.
  if (absl::IsCancelled(job.status())) return kExitInterrupted;
  if (!job.ok()) return session.FailRpc(job.status());
  int code = ExitCodeOfJob(*job);
  printer.Finish(*job, FetchModel(*job, arguments, session, client, &code),
                 client);
  return code;
}

// The same of a search and the model that it chooses.
int FollowSearch(const v1::SweepSpec& spec, const Arguments& arguments,
                 const Session& session, SweepClient& sweeps,
                 TrainingClient& client, std::string* name) {
  const absl::StatusOr<v1::Sweep> submitted = sweeps.Submit(spec, {});
  if (absl::IsCancelled(submitted.status())) return kExitInterrupted;
  if (!submitted.ok()) return session.FailRpc(submitted.status());
  *name = submitted->name();
  session.Note(absl::StrCat("submitted ", *name, ", ", submitted->runs_size(),
                            " candidates"));
  SweepPrinter printer(session);
  const absl::StatusOr<v1::Sweep> sweep = sweeps.Watch(
      *name, [&](const v1::Sweep& s) { printer.OnSweep(s); },
      [&](const v1::SweepEvent& e) { printer.OnEvent(e); });
  if (absl::IsCancelled(sweep.status())) return kExitInterrupted;
  if (!sweep.ok()) return session.FailRpc(sweep.status());
  printer.Finish(*sweep);
  int code = ExitCodeOfSweep(*sweep);
  if (!sweep->search().has_chosen_run()) return code;
  const absl::StatusOr<v1::Job> job =
      client.Get(sweep->runs(sweep->search().chosen_run()).job());
  if (!job.ok()) return session.FailRpc(job.status());
  const std::string directory =
      FetchModel(*job, arguments, session, client, &code);
  if (!directory.empty() && session.output == OutputFormat::kTable) {
    *session.env.out << "model  " << directory << std::endl;
  }
  return code;
}

// Asks the search's jobs to stop.
void CancelSearch(SweepClient& sweeps, const std::string& name,
                  const Session& session) {
  session.Note(absl::StrCat("cancelling ", name));
  // Everything is stopped next, whatever the result.
  sweeps.Cancel(name, "interrupted").IgnoreError();
}

// Runs the job or search on the cluster; returns an exit code.
int RunOn(const EmbeddedCluster& cluster, const JobOrSearch& spec,
          const Arguments& arguments, const Session& session,
          const Interrupts& interrupts, Stopper* stopper) {
  const TrainingClient::Options options = ClientOptions(cluster);
  auto client = TrainingClient::Connect(cluster.address(), options);
  const auto channel = OpenChannel(cluster.address(), cluster.security(),
                                   grpc::ChannelArguments());
  if (!channel.ok()) return session.FailRpc(channel.status());
  auto sweeps = std::make_unique<SweepClient>(*channel, options);
  stopper->Use([&] {
    client->Stop();
    sweeps->Stop();
  });
  std::string name = arguments.resume;
  int code = kExitOk;
  if (!interrupts.happened()) {
    code = spec.is_search
               ? FollowSearch(spec.search, arguments, session, *sweeps, *client,
                              &name)
               : Follow(spec.job, arguments, session, *client, &name);
  }
  stopper->Use(nullptr);
  if (!stopper->failure().ok()) {
    return session.Fail(std::string(stopper->failure().message()),
                        kExitClientError);
  }
  if (!interrupts.happened()) return code;
  if (!name.empty() && spec.is_search) {
    SweepClient canceller(*channel, options);
    CancelSearch(canceller, name, session);
  } else if (!name.empty()) {
    PauseJob(cluster, name, std::max(spec.job.resources().processes(), 1),
             arguments, session);
  }
  return kExitInterrupted;
}

// The job of the file, or of the data that --auto names.
std::optional<JobOrSearch> ReadJob(const Arguments& arguments,
                                   const Session& session) {
  if (!arguments.automatic) return ReadJobOrSearch(arguments.spec, session);
  AutoRequest request = arguments.request;
  for (const std::string& path :
       {arguments.spec.file, request.validation, request.test}) {
    if (!HasUrlScheme(path)) continue;
    session.Fail(Printable(absl::StrCat(
                     "--auto looks into the data and takes files of this "
                     "machine, not ",
                     path, ": name URLs in a job file")),
                 kExitClientError);
    return std::nullopt;
  }
  request.data = Absolute(arguments.spec.file, session);
  request.validation = Absolute(request.validation, session);
  request.test = Absolute(request.test, session);
  absl::StatusOr<v1::JobSpec> job = MakeAutoJob(request);
  absl::Status status = job.status();
  for (const std::string& assignment : arguments.spec.assignments) {
    if (!status.ok()) break;
    status = SetJobField(assignment, session.env.working_folder, &*job);
  }
  if (!status.ok()) {
    session.Fail(Printable(std::string(status.message())), kExitClientError);
    return std::nullopt;
  }
  JobOrSearch spec = MakeJobOrSearch(*std::move(job));
  if (!arguments.dry_run &&
      !CheckJobOrSearch(spec, arguments.spec.file, session)) {
    return std::nullopt;
  }
  return spec;
}

// Whether the command line names something that only --auto takes.
bool NeedsAuto(const AutoRequest& request) {
  return !(request.target_loss.empty() && request.target_accuracy.empty() &&
           request.target_size.empty() && request.budget.empty() &&
           request.validation.empty() && request.test.empty() &&
           request.columns.text.empty() &&
           request.columns.second_text.empty() &&
           request.columns.label.empty());
}

// Starts the cluster and runs the job or search there; returns an exit code.
int RunInCluster(const JobOrSearch& spec, const Arguments& arguments,
                 const Session& session) {
  // Better now than when hours of training are over.
  const absl::Status folder =
      CheckModelFolder(ModelFolder("", arguments, session), arguments.force);
  if (!folder.ok()) {
    return session.Fail(Printable(std::string(folder.message())),
                        kExitClientError);
  }
  Stopper stopper;
  Interrupts interrupts([&] { stopper.Stop(); });
  auto cluster = EmbeddedCluster::Start(
      ClusterOptions(arguments, spec.job, session, &stopper));
  if (!cluster.ok()) {
    return session.Fail(std::string(cluster.status().message()),
                        kExitClientError);
  }
  if (session.verbose) {
    session.Note(absl::StrCat("coordinator: ", (*cluster)->address(),
                              "; from another terminal: comera ls --server ",
                              (*cluster)->address(), " --token-file ",
                              (*cluster)->security().token_file));
  }
  // The token itself would stay in the terminal and its records.
  if (!(*cluster)->http_address().empty()) {
    session.Note(absl::StrCat("dashboard: http://", (*cluster)->http_address(),
                              "/ (sign in with the token in ",
                              (*cluster)->security().token_file, ")"));
  }
  Session own = session;
  own.started_coordinator = true;
  const int code = RunOn(**cluster, spec, arguments, own, interrupts, &stopper);
  (*cluster)->Stop();
  return code;
}

// Goes on with a job that an earlier run left in the same folder.
int RunAgain(const Arguments& given, const Session& session) {
  Arguments arguments = given;
  const absl::StatusOr<std::string> name =
      Session::JobNameFrom(arguments.resume);
  if (!name.ok()) {
    return session.Fail(std::string(name.status().message()), kExitUsage);
  }
  if (!arguments.spec.file.empty() || arguments.automatic) {
    return session.Fail("--resume goes on with a job; it takes no other",
                        kExitUsage);
  }
  if (arguments.processes < 1 || arguments.processes > 1024) {
    return session.Fail("--processes: 1 to 1024", kExitUsage);
  }
  arguments.resume = *name;
  JobOrSearch spec;
  spec.job.mutable_resources()->set_processes(
      static_cast<int32_t>(arguments.processes));
  return RunInCluster(spec, arguments, session);
}

int Run(const Arguments& arguments, const Session& session) {
  if (!arguments.automatic && NeedsAuto(arguments.request)) {
    return session.Fail(
        "targets, budget and columns on the command line need --auto; a job "
        "file has its own",
        kExitUsage);
  }
  if (!arguments.resume.empty()) return RunAgain(arguments, session);
  if (arguments.spec.file.empty()) {
    return session.Fail("run: which job file? (or --resume JOB)", kExitUsage);
  }
  const std::optional<JobOrSearch> spec = ReadJob(arguments, session);
  if (!spec) return kExitClientError;
  if (arguments.dry_run) {
    *session.env.out << (session.output == OutputFormat::kJson
                             ? ToJson(spec->job, /*one_line=*/false)
                             : ToYaml(spec->job))
                     << std::flush;
    return kExitOk;
  }
  const absl::Status urls = CheckUrls(arguments.urls, spec->job);
  if (!urls.ok()) {
    return session.Fail(Printable(std::string(urls.message())),
                        kExitClientError);
  }
  return RunInCluster(*spec, arguments, session);
}

}  // namespace

Verb RunVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {"run",
               "Run a job on this machine: coordinator and worker included",
               SpecArguments(&arguments->spec), nullptr};
  verb.arguments[0].help =
      "Job file: .yaml, .json or .textproto; with --auto: data";
  // Not with --resume.
  verb.arguments[0].required = false;
  const Argument more[] = {
      {"--auto",
       "Searches for the smallest model of these data (.csv, .tsv, .jsonl with "
       "labels, .txt, or a folder of code) that meets the targets",
       &arguments->automatic,
       false,
       {}},
      {"--target-accuracy",
       "With --auto: accuracy to reach, e.g. 0.8",
       &arguments->request.target_accuracy,
       false,
       {},
       Names::kNothing},
      {"--target-loss",
       "With --auto: validation loss to reach, in nats",
       &arguments->request.target_loss,
       false,
       {},
       Names::kNothing},
      {"--target-size",
       "With --auto: parameters (60k) or bytes (256KiB) at most",
       &arguments->request.target_size,
       false,
       {},
       Names::kNothing},
      {"--budget",
       "With --auto: time or steps of the whole search (10m)",
       &arguments->request.budget,
       false,
       {},
       Names::kNothing},
      {"--validation",
       "With --auto: file to validate on (a tenth of the data)",
       &arguments->request.validation,
       false,
       {},
       Names::kFile},
      {"--test",
       "With --auto: file to test the result on",
       &arguments->request.test,
       false,
       {},
       Names::kFile},
      {"--text",
       "With --auto: column or field of the text",
       &arguments->request.columns.text,
       false,
       {},
       Names::kNothing},
      {"--second-text",
       "With --auto: column or field of a second text",
       &arguments->request.columns.second_text,
       false,
       {},
       Names::kNothing},
      {"--label",
       "With --auto: column or field of the label",
       &arguments->request.columns.label,
       false,
       {},
       Names::kNothing},
      {"--dry-run",
       "Print the job, run nothing",
       &arguments->dry_run,
       false,
       {}},
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
      {"--force",
       "Download also over another model",
       &arguments->force,
       false,
       {}},
      {"--resume",
       "Go on with this job of an earlier run, which was interrupted, failed "
       "or "
       "was cancelled",
       &arguments->resume,
       false,
       {}},
      {"--processes",
       "With --resume: the number of the job's processes (1)",
       &arguments->processes,
       false,
       {}},
      {"--status-file",
       "Write pids, address and the token's file there as JSON",
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
  const std::vector<Argument> urls = UrlArguments(&arguments->urls);
  verb.arguments.insert(verb.arguments.end(), urls.begin(), urls.end());
  verb.examples =
      R"(  comera run docs/examples/quickstart_code_mlm.yaml
  comera run job.yaml --set resources.processes=1 --model-dir ./model
  comera run job.yaml -o json          # events as JSON lines
  comera run --resume 4f2x7k3m5q6a     # after Ctrl-C: the job was kept
  comera run --auto reviews.csv --target-accuracy 0.8 --budget 10m
  comera run --auto src/ --target-loss 3 --target-size 200k --dry-run)";
  verb.run = [=] { return Run(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
