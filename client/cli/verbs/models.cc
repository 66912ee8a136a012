// comera models: lists, describes, downloads and deletes models.
#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/interrupts.h"
#include "client/cli/verbs/label_filter.h"
#include "client/cli/verbs/model_download.h"
#include "client/cli/verbs/verbs.h"
#include "client/model_client.h"

namespace comera::client {
namespace {

constexpr char kExamples[] =
    R"(  comera models                         # of all jobs, newest first
  comera models --label team=nlp
  comera models 4f2x7k3m5q6a            # of one job
  comera models 4f2x7k3m5q6a --describe # ranks per layer, figures
  comera models 4f2x7k3m5q6a --download ./model --model target-2
  comera models 4f2x7k3m5q6a --delete --model target-2)";

struct Arguments {
  std::string job;
  std::string directory;
  std::string model;
  std::vector<std::string> labels;
  int64_t limit = 50;
  bool describe = false;
  bool remove = false;
};

void PrintModels(const v1::Job& job, const Session& session) {
  if (session.output != OutputFormat::kTable) {
    v1::Job only_models;
    only_models.set_name(job.name());
    *only_models.mutable_models() = job.models();
    session.Print(only_models, /*one_line=*/false);
    return;
  }
  std::vector<std::vector<std::string>> rows = {
      {"MODEL", "FILES", "BYTES", "PARAMETERS", "VALIDATION LOSS"}};
  for (const v1::Artifact& model : job.models()) {
    double bytes = 0;
    for (const v1::ArtifactFile& file : model.files()) {
      bytes += file.size_bytes();
    }
    rows.push_back({LastSegment(model.name()), absl::StrCat(model.files_size()),
                    FormatBytes(bytes), FormatCount(model.size_parameters()),
                    FormatFigure(model.validation_loss())});
  }
  session.PrintTable(rows);
}

int Download(TrainingClient& client, const v1::Artifact& model,
             const Arguments& arguments, const Session& session) {
  absl::Status status;
  {
    Interrupts interrupts([&client] { client.Stop(); });
    status = DownloadModel(client, model, arguments.directory);
    if (interrupts.happened()) {
      return session.Fail(
          "interrupted; the same command goes on where this one stopped",
          kExitInterrupted);
    }
  }
  if (!status.ok()) return session.FailRpc(status);
  session.Note(
      absl::StrCat("downloaded ", model.name(), " to ", arguments.directory));
  return kExitOk;
}

// Lists models of all jobs that match.
int ListAll(const Arguments& arguments, const Session& session,
            ModelClient& client) {
  ModelClient::Filter filter;
  const auto labels = ParseLabels(arguments.labels);
  if (!labels.ok()) {
    return session.Fail(std::string(labels.status().message()), kExitUsage);
  }
  filter.labels = *labels;
  const auto models = client.List(filter, arguments.limit);
  if (!models.ok()) return session.FailRpc(models.status());
  if (session.output != OutputFormat::kTable) {
    v1::ListModelsResponse response;
    for (const v1::Model& model : *models) *response.add_models() = model;
    session.Print(response, /*one_line=*/false);
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows = {
      {"MODEL", "JOB NAME", "BYTES", "PARAMETERS", "VALIDATION LOSS", "PARETO",
       "AGE"}};
  for (const v1::Model& model : *models) {
    const v1::Artifact& artifact = model.artifact();
    rows.push_back(
        {model.name(),
         model.job_display_name().empty() ? "-"
                                          : Printable(model.job_display_name()),
         FormatBytes(static_cast<double>(model.size_bytes())),
         FormatCount(artifact.size_parameters()),
         FormatFigure(artifact.validation_loss()),
         model.pareto_optimal() ? "yes" : "no",
         DurationText(absl::Now() - ToTime(artifact.create_time()))});
  }
  return session.PrintTable(rows, {"AGE", "JOB NAME", "BYTES"});
}

int Describe(const std::string& name, const Session& session,
             ModelClient& client) {
  const auto model = client.Get(name);
  if (!model.ok()) return session.FailRpc(model.status());
  if (session.output != OutputFormat::kTable) {
    session.Print(*model, /*one_line=*/false);
    return kExitOk;
  }
  const v1::Artifact& artifact = model->artifact();
  const int64_t parameters = artifact.size_parameters();
  std::vector<std::vector<std::string>> rows = {
      {"model", model->name()},
      {"step", FormatCount(model->step())},
      {"validation loss", FormatFigure(artifact.validation_loss())},
      {"parameters", FormatCount(parameters)},
      {"bytes", FormatBytes(static_cast<double>(model->size_bytes()))}};
  if (model->dense_parameters() > 0 && parameters > 0) {
    rows.push_back({"dense parameters",
                    absl::StrCat(FormatCount(model->dense_parameters()), " (",
                                 FormatFigure(static_cast<double>(
                                                  model->dense_parameters()) /
                                              static_cast<double>(parameters)),
                                 " times as many)")});
  }
  rows.push_back(
      {"on the Pareto front", model->pareto_optimal() ? "yes" : "no"});
  *session.env.out << FormatTable(rows) << "\n";
  std::vector<std::vector<std::string>> layers = {{"LAYER", "RANKS"}};
  for (const v1::LayerRanks& layer : model->ranks()) {
    layers.push_back(
        {Printable(layer.layer()), absl::StrJoin(layer.current(), " ")});
  }
  std::vector<std::vector<std::string>> files = {{"FILE", "BYTES", "SHA256"}};
  for (const v1::ArtifactFile& file : artifact.files()) {
    files.push_back({Printable(file.path()),
                     FormatBytes(static_cast<double>(file.size_bytes())),
                     file.sha256()});
  }
  *session.env.out << session.TableText(layers) << "\n"
                   << session.TableText(files, {"SHA256"}) << std::flush;
  return kExitOk;
}

int Models(const Arguments& arguments, const Session& session) {
  const bool describes = arguments.describe || arguments.remove;
  std::unique_ptr<ModelClient> models;
  if (describes || arguments.job.empty()) {
    const auto channel = session.Channel();
    if (!channel.ok()) return session.FailRpc(channel.status());
    TrainingClient::Options options;
    options.timeout = options.attempt_timeout = session.timeout;
    models = std::make_unique<ModelClient>(*channel, options);
  }
  if (arguments.job.empty()) {
    if (describes || !arguments.directory.empty()) {
      return session.Fail("models: of which job?", kExitUsage);
    }
    return ListAll(arguments, session, *models);
  }
  const absl::StatusOr<std::string> name = Session::JobNameFrom(arguments.job);
  if (!name.ok()) {
    return session.Fail(std::string(name.status().message()), kExitUsage);
  }
  auto client = session.Connect();
  const absl::StatusOr<v1::Job> job = client->Get(*name);
  if (!job.ok()) return session.FailRpc(job.status());
  if (arguments.directory.empty() && !describes) {
    PrintModels(*job, session);
    return kExitOk;
  }
  // The newest comes last.
  const v1::Artifact* chosen = nullptr;
  for (const v1::Artifact& model : job->models()) {
    if (arguments.model.empty() ||
        LastSegment(model.name()) == LastSegment(arguments.model)) {
      chosen = &model;
    }
  }
  if (chosen == nullptr) {
    return session.Fail(absl::StrCat(*name, " has no such model"),
                        kExitNotFound);
  }
  if (arguments.describe) return Describe(chosen->name(), session, *models);
  if (arguments.remove) {
    if (arguments.model.empty()) {
      return session.Fail("models --delete: which one? (--model)", kExitUsage);
    }
    const absl::Status status = models->Delete(chosen->name());
    if (!status.ok()) return session.FailRpc(status);
    session.Note(absl::StrCat("deleted ", chosen->name()));
    return kExitOk;
  }
  return Download(*client, *chosen, arguments, session);
}

}  // namespace

Verb ModelsVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {
      "models", "List, describe, download or delete models", {}, nullptr};
  verb.arguments = {
      {"job", "Job id (all jobs)", &arguments->job, false, {}},
      {"--download",
       "Folder to put the files in; a broken download goes on",
       &arguments->directory,
       false,
       {}},
      {"--describe",
       "Ranks per layer, figures, files",
       &arguments->describe,
       false,
       {}},
      {"--delete", "Remove it", &arguments->remove, false, {}},
      {"--model", "Which model (the newest)", &arguments->model, false, {}},
      {"--label",
       "Only of jobs with this label, KEY=VALUE; repeatable",
       &arguments->labels,
       false,
       {}},
      {"--limit",
       "List at most so many (50; 0: all)",
       &arguments->limit,
       false,
       {}},
  };
  verb.examples = kExamples;
  verb.run = [=] { return Models(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
