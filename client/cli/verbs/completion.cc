// comera completion: prints scripts for shells, and answers their questions.
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/sweep_connection.h"
#include "client/cli/session/worker_rows.h"
#include "client/cli/shell/complete.h"
#include "client/cli/shell/completion_scripts.h"
#include "client/cli/verbs/verbs.h"
#include "client/dataset_client.h"
#include "client/model_client.h"

namespace comera::client {
namespace {

constexpr char kExamples[] =
    R"(  comera completion bash               # look at it
  source <(comera completion bash)     # in ~/.bashrc
  source <(comera completion zsh)      # in ~/.zshrc, after compinit
  comera completion fish | source      # in ~/.config/fish/config.fish)";

// The user has just pressed a key, so a coordinator that does not answer must
// not delay completion.
constexpr absl::Duration kPatience = absl::Seconds(1);
constexpr int64_t kMostNames = 200;

// The states in which a verb applies to a job; empty for all.
std::vector<v1::JobState> StatesFor(const std::string& verb) {
  if (verb == "resume") return {v1::PAUSED};
  if (verb == "cancel" || verb == "wait" || verb == "explain") {
    return {v1::QUEUED, v1::STARTING, v1::RUNNING, v1::CANCELLING, v1::PAUSED};
  }
  if (verb == "pause") return {v1::QUEUED, v1::STARTING, v1::RUNNING};
  return {};
}

void Jobs(const Session& session, const std::string& verb,
          std::vector<Candidate>* names) {
  v1::ListJobsRequest request;
  for (v1::JobState state : StatesFor(verb)) request.add_states(state);
  request.set_view(v1::JOB_VIEW_BASIC);
  const auto jobs = session.Connect()->ListMatching(request, kMostNames);
  if (!jobs.ok()) return;
  for (const v1::Job& job : jobs->jobs()) {
    names->push_back({job.name(), absl::StrCat(StateText(job), " ",
                                               job.spec().display_name())});
  }
}

void Sweeps(const Session& session, std::vector<Candidate>* names) {
  const auto client = ConnectSweeps(session);
  if (!client.ok()) return;
  const auto sweeps = (*client)->List(kMostNames);
  if (!sweeps.ok()) return;
  for (const v1::Sweep& sweep : *sweeps) {
    names->push_back({sweep.name(), sweep.spec().display_name()});
  }
}

void Models(const Session& session, std::vector<Candidate>* names) {
  const auto channel = session.Channel();
  if (!channel.ok()) return;
  const auto models =
      ModelClient(*channel, session.ClientOptions()).List({}, kMostNames);
  if (!models.ok()) return;
  for (const v1::Model& model : *models) {
    names->push_back({model.name(), model.job_display_name()});
  }
}

void Datasets(const Session& session, std::vector<Candidate>* names) {
  const auto channel = session.Channel();
  if (!channel.ok()) return;
  const auto datasets =
      DatasetClient(*channel, session.ClientOptions()).List({});
  if (!datasets.ok()) return;
  for (const v1::Dataset& dataset : *datasets) {
    names->push_back(
        {dataset.name(), absl::StrCat(dataset.versions_size(), " versions")});
  }
}

// On errors the list is short, because they cannot be shown anywhere.
std::vector<Candidate> AskNames(const Session& session, Names kind,
                                const std::string& verb) {
  std::vector<Candidate> names;
  switch (kind) {
    case Names::kJob:
      Jobs(session, verb, &names);
      break;
    case Names::kSweep:
      Sweeps(session, &names);
      break;
    case Names::kJobOrSweep:
      Sweeps(session, &names);
      Jobs(session, verb, &names);
      break;
    case Names::kModel:
      Models(session, &names);
      break;
    case Names::kDataset:
      Datasets(session, &names);
      break;
    case Names::kWorker:
      if (const auto workers = session.Connect()->ListWorkers(); workers.ok()) {
        for (const v1::WorkerSummary& worker : *workers) {
          names.push_back({worker.name(), ServiceText(worker)});
        }
      }
      break;
    case Names::kQueue:
      if (const auto queues = session.Connect()->ListQueues(); queues.ok()) {
        for (const v1::Queue& queue : *queues) {
          names.push_back(
              {queue.name(), absl::StrCat(queue.queued_jobs(), " queued")});
        }
      }
      break;
    default:
      break;
  }
  return names;
}

}  // namespace

int CompleteLine(Session* session, const std::vector<Verb>& verbs,
                 const std::vector<Argument>& globals,
                 const std::vector<std::string>& words) {
  session->timeout = kPatience;
  const Completion completion = Complete(
      verbs, globals, words, [&](Names names, const std::string& verb) {
        return AskNames(*session, names, verb);
      });
  *session->env.out << CompletionText(completion) << std::flush;
  return kExitOk;
}

Verb CompletionVerb(Session* session) {
  auto shell = std::make_shared<std::string>();
  Verb verb = {
      "completion", "Print a completion script for a shell", {}, nullptr};
  verb.arguments.push_back({"shell",
                            "bash, zsh or fish",
                            shell.get(),
                            true,
                            {"bash", "zsh", "fish"}});
  verb.examples = kExamples;
  verb.run = [=]() -> int {
    *session->env.out << CompletionScript(*shell) << std::flush;
    return kExitOk;
  };
  return verb;
}

}  // namespace comera::client
