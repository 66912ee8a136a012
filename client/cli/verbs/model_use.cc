// Finds models, trainers and workers for the verbs that predict, generate,
// evaluate and export.

#include "client/cli/verbs/model_use.h"

#include <unistd.h>

#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/artifact_file.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/verbs/model_download.h"
#include "client/embedded_cluster.h"
#include "client/model_client.h"
#include "client/predict/local_predictor.h"
#include "client/predict/remote_predictor.h"
#include "common/files.h"
#include "common/loopback.h"
#include "common/status_macros.h"
#include "proto/resource_names.h"

namespace comera::client {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kLoadTimeout = absl::Minutes(3);

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

bool IsModelFolder(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path + "/config.json", error);
}

// Asks the coordinator for tickets, which a worker gets in place of the token.
RemotePredictor::TicketSource TicketsFor(
    const std::shared_ptr<ModelClient>& models, const std::string& model,
    const std::string& worker) {
  return [=]() -> absl::StatusOr<std::string> {
    v1::CreateTicketRequest request;
    request.set_model(model);
    request.set_worker(worker);
    ASSIGN_OR_RETURN(const v1::CreateTicketResponse made,
                     models->CreateTicket(request));
    return made.ticket();
  };
}

absl::StatusOr<RowFormat> FormatOf(const RowInput& input,
                                   const v1::ServedModel& model) {
  absl::string_view format = input.format;
  if (format.empty()) {
    absl::string_view name = input.file;
    absl::ConsumeSuffix(&name, ".gz");
    if (model.family() == "dlrm") {
      format = absl::EndsWith(name, ".jsonl") ? "jsonl" : "criteo";
    } else if (absl::EndsWith(name, ".tsv")) {
      format = "tsv";
    } else if (absl::EndsWith(name, ".txt")) {
      format = "text";
    } else {
      format = "jsonl";
    }
  }
  if (format == "tsv") return RowFormat::kTsv;
  if (format == "jsonl") return RowFormat::kJsonl;
  if (format == "text") return RowFormat::kText;
  return RowFormat::kCriteo;
}

}  // namespace

std::vector<Argument> ModelArguments(ModelUse* use, bool computes) {
  std::vector<Argument> arguments = {
      {"model",
       "Folder of a model, or jobs/JOB/models/MODEL (of jobs/JOB the newest)",
       &use->model,
       true,
       {}},
      {"--trainer-binary",
       "comera-trainer to run (beside comera)",
       &use->trainer,
       false,
       {}},
      {"--model-cache",
       "Where downloaded models are kept",
       &use->cache,
       false,
       {}},
  };
  if (!computes) return arguments;
  const Argument more[] = {
      {"--device", "Compute on", &use->device, false, {"cpu", "gpu"}},
      {"--threads", "Threads (all)", &use->threads, false, {}},
      {"--batch",
       "Rows that go through the model together (32, fewer of large models)",
       &use->batch,
       false,
       {}},
  };
  arguments.insert(arguments.end(), std::begin(more), std::end(more));
  return arguments;
}

std::vector<Argument> RowArguments(RowInput* input) {
  return {
      {"--input",
       "Rows: a file, plain or .gz, or - for standard input",
       &input->file,
       false,
       {}},
      {"--format",
       "Of the rows (by the file's name, else jsonl; of clicks criteo)",
       &input->format,
       false,
       {"tsv", "jsonl", "text", "criteo"}},
      {"--columns",
       "Columns or fields with the text, or with both of a pair: names, or "
       "numbers from 0, with a comma (those of the training data)",
       &input->columns,
       false,
       {}},
      {"--label-column",
       "Column or field with the right label (that of the training data)",
       &input->label_column,
       false,
       {}},
      {"--no-header",
       "TSV without a header line",
       &input->no_header,
       false,
       {}},
  };
}

absl::StatusOr<std::string> FindModelName(const std::string& model,
                                          const Session& session) {
  if (ParseArtifactName(model)) return model;
  const std::string alias =
      absl::StartsWith(model, "models/") ? model : "models/" + model;
  if (IsModelAlias(alias)) {
    ASSIGN_OR_RETURN(const auto channel, session.Channel());
    ModelClient models(channel, session.ClientOptions());
    ASSIGN_OR_RETURN(const v1::Model found, models.GetAlias(alias));
    return found.name();
  }
  const absl::StatusOr<std::string> job = Session::JobNameFrom(model);
  if (!job.ok()) {
    return absl::NotFoundError(absl::StrCat(
        "`", model,
        "` is no folder of a model, no jobs/JOB/models/MODEL and no "
        "NAME@ALIAS"));
  }
  const auto client = session.Connect();
  ASSIGN_OR_RETURN(const v1::Job found, client->Get(*job));
  for (int i = found.models_size(); i-- > 0;) {
    const std::string& name = found.models(i).name();
    // The early stage is not a model but a state to continue from.
    if (LastSegment(name) != kEarlyStageArtifact) return name;
  }
  return absl::NotFoundError(absl::StrCat(*job, " has no model"));
}

absl::StatusOr<std::string> FindModel(const ModelUse& use,
                                      const Session& session) {
  if (IsModelFolder(use.model)) return use.model;
  std::error_code error;
  if (fs::is_directory(use.model, error)) {
    return absl::NotFoundError(
        absl::StrCat(use.model, ": no model, config.json is not there"));
  }
  ASSIGN_OR_RETURN(const std::string name, FindModelName(use.model, session));
  ASSIGN_OR_RETURN(const auto channel, session.Channel());
  ModelClient models(channel, session.ClientOptions());
  ASSIGN_OR_RETURN(const v1::Model model, models.Get(name));
  const auto ids = ParseArtifactName(name);
  const std::string folder = absl::StrCat(
      use.cache.empty() ? session.env.state_folder + "/models" : use.cache, "/",
      ids->first, "/", ids->second);
  RETURN_IF_ERROR(MakeDirectories(folder));
  std::unique_ptr<TrainingClient> client;
  for (const v1::ArtifactFile& file : model.artifact().files()) {
    if (!IsPlainFileName(file.path())) {
      return absl::DataLossError(
          absl::StrCat(name, " names a file that is none"));
    }
    const std::string path = absl::StrCat(folder, "/", file.path());
    if (IsThere(path, file)) continue;
    if (client == nullptr) {
      client = session.Connect();
      session.Note(absl::StrCat("downloading ", name));
    }
    RETURN_IF_ERROR(client->DownloadArtifact(name, file, path));
  }
  return folder;
}

absl::StatusOr<std::string> FindTrainer(const std::string& argument,
                                        const Session& session) {
  std::string trainer = argument;
  if (trainer.empty()) {
    trainer = FindClusterBinaries(session.env.binary_folder).trainer;
  } else if (trainer[0] != '/') {
    trainer = absl::StrCat(session.env.working_folder, "/", trainer);
  }
  if (!trainer.empty()) return trainer;
  return absl::NotFoundError(
      "comera-trainer is not beside comera; --trainer-binary names it");
}

absl::StatusOr<std::unique_ptr<RowPredictor>> StartPredictor(
    const ModelUse& use, const std::string& folder, const Session& session) {
  if (use.batch < 0 || use.batch > 4096) {
    return absl::InvalidArgumentError("--batch: 0 to 4096");
  }
  ASSIGN_OR_RETURN(const std::string trainer,
                   FindTrainer(use.trainer, session));
  ASSIGN_OR_RETURN(std::unique_ptr<LocalPredictor> predictor,
                   LocalPredictor::Start(
                       {trainer, "--serve", absl::StrCat("--model=", folder),
                        absl::StrCat("--device=", use.device),
                        absl::StrCat("--threads=", use.threads),
                        absl::StrCat("--batch=", use.batch),
                        // The folder in which the worker of `comera run` keeps
                        // measurements.
                        absl::StrCat("--cache-dir=", session.env.state_folder,
                                     "/worker/cache")}));
  return predictor;
}

absl::StatusOr<std::unique_ptr<RowPredictor>> AskWorker(
    const std::string& model, const std::string& worker,
    const Session& session) {
  ASSIGN_OR_RETURN(const std::string name, FindModelName(model, session));
  ASSIGN_OR_RETURN(const auto channel, session.Channel());
  const auto models =
      std::make_shared<ModelClient>(channel, session.ClientOptions());
  const auto client = session.Connect();
  ASSIGN_OR_RETURN(const std::vector<v1::WorkerSummary> workers,
                   client->ListWorkers());
  absl::Status last = absl::NotFoundError(
      worker.empty() ? "no connected worker serves models"
                     : absl::StrCat("no worker ", worker,
                                    " that is connected and serves models"));
  for (const v1::WorkerSummary& one : workers) {
    if (!one.connected() || one.peer_address().empty()) continue;
    if (!worker.empty() && LastSegment(one.name()) != LastSegment(worker)) {
      continue;
    }
    const std::string host =
        one.peer_address().substr(0, one.peer_address().rfind(':'));
    if (IsLoopback(host) && one.host() != HostName()) {
      last = absl::NotFoundError(
          absl::StrCat(one.name(),
                       " serves callers on its machine only: it "
                       "was started without --address"));
      continue;
    }
    absl::StatusOr<std::unique_ptr<RemotePredictor>> predictor =
        RemotePredictor::Connect(one.peer_address(), session.Security(),
                                 TicketsFor(models, name, one.name()), name,
                                 kLoadTimeout);
    if (predictor.ok()) {
      if (session.verbose) session.Note(absl::StrCat("asking ", one.name()));
      return *std::move(predictor);
    }
    last = absl::Status(
        predictor.status().code(),
        absl::StrCat(one.name(), ": ", predictor.status().message()));
    last.SetPayload(kWorkerStatusPayload, absl::Cord());
    const bool of_worker =
        predictor.status().GetPayload(kWorkerStatusPayload).has_value();
    // Any other worker would answer the same. What only this one refuses may be
    // due to its version or to its own token.
    if (absl::IsNotFound(last) || absl::IsInvalidArgument(last) ||
        (!of_worker &&
         (absl::IsPermissionDenied(last) || absl::IsUnauthenticated(last)))) {
      break;
    }
  }
  return last;
}

absl::StatusOr<std::unique_ptr<RowPredictor>> OpenPredictor(
    const ModelUse& use, bool remote, const std::string& worker,
    const Session& session) {
  if (remote) return AskWorker(use.model, worker, session);
  ASSIGN_OR_RETURN(const std::string folder, FindModel(use, session));
  return StartPredictor(use, folder, session);
}

absl::StatusOr<std::unique_ptr<RowReader>> OpenRows(
    const RowInput& input, bool labels, const v1::ServedModel& model,
    LineSource** source) {
  RowReader::Options options;
  ASSIGN_OR_RETURN(options.format, FormatOf(input, model));
  if (!input.columns.empty()) {
    options.columns = absl::StrSplit(input.columns, ',');
  }
  options.label_column = input.label_column;
  options.labels = labels;
  options.no_header = input.no_header;
  ASSIGN_OR_RETURN(std::unique_ptr<LineSource> opened,
                   LineSource::Open(input.file));
  *source = opened.get();
  return RowReader::Create(std::move(opened), model, options);
}

int FailModelUse(const absl::Status& status, const Session& session) {
  const bool of_worker = status.GetPayload(kWorkerStatusPayload).has_value();
  if (!of_worker &&
      (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status))) {
    return session.FailRpc(status);
  }
  return session.Fail(Printable(std::string(status.message())),
                      ExitCodeOfRpc(status));
}

}  // namespace comera::client
