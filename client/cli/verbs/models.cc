// comera models: lists, describes, downloads and deletes models.
#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/interrupts.h"
#include "client/cli/verbs/bucket_folder.h"
#include "client/cli/verbs/label_filter.h"
#include "client/cli/verbs/model_download.h"
#include "client/cli/verbs/url_access.h"
#include "client/cli/verbs/verbs.h"
#include "client/model_client.h"
#include "common/status_macros.h"
#include "proto/resource_names.h"

namespace comera::client {
namespace {

constexpr char kExamples[] =
    R"(  comera models                         # of all jobs, newest first
  comera models --label team=nlp
  comera models 4f2x7k3m5q6a            # of one job
  comera models 4f2x7k3m5q6a --describe # ranks per layer, figures
  comera models 4f2x7k3m5q6a --download ./model --model target-2
  comera models 4f2x7k3m5q6a --delete --model target-2
  comera models 4f2x7k3m5q6a --pin      # nothing deletes it
  comera models 4f2x7k3m5q6a --alias intents@production
  comera models intents@production --download ./model
  comera models intents@production --download s3://models/intents
  comera models --text intents          # find them again
  comera models --kept                  # pinned, or with an alias)";

struct Arguments {
  std::string job;
  std::string directory;
  std::string model;
  std::vector<std::string> labels;
  int64_t limit = 50;
  bool describe = false;
  bool remove = false;
  bool force = false;
  bool pin = false;
  bool unpin = false;
  // An alias to give, and one to end.
  std::string alias;
  std::string unalias;
  std::string text;
  bool kept = false;
  // How the bucket is reached if `directory` is one.
  UrlAccess bucket;

  bool Changes() const {
    return remove || pin || unpin || !alias.empty() || !unalias.empty();
  }
  // How many different things are asked for.
  int CountActions() const {
    return static_cast<int>(!directory.empty()) + describe + remove + pin +
           unpin + !alias.empty() + !unalias.empty();
  }
};

bool IsAlias(const std::string& text) {
  return text.find('@') != std::string::npos;
}

// `models/intents@production` of `intents@production`.
std::string AliasName(const std::string& text) {
  return text.rfind("models/", 0) == 0 ? text : "models/" + text;
}

std::string KeptText(const v1::Artifact& model) {
  std::vector<std::string> parts(model.aliases().begin(),
                                 model.aliases().end());
  for (std::string& alias : parts) alias = LastSegment(alias);
  if (model.pinned()) parts.insert(parts.begin(), "pinned");
  return parts.empty() ? "-" : absl::StrJoin(parts, " ");
}

void PrintModels(const v1::Job& job, const Session& session) {
  if (session.output != OutputFormat::kTable) {
    v1::Job only_models;
    only_models.set_name(job.name());
    *only_models.mutable_models() = job.models();
    session.Print(only_models, /*one_line=*/false);
    return;
  }
  std::vector<std::vector<std::string>> rows = {
      {"MODEL", "FILES", "BYTES", "PARAMETERS", "VALIDATION LOSS", "KEPT"}};
  for (const v1::Artifact& model : job.models()) {
    double bytes = 0;
    for (const v1::ArtifactFile& file : model.files()) {
      bytes += file.size_bytes();
    }
    rows.push_back({LastSegment(model.name()), absl::StrCat(model.files_size()),
                    FormatBytes(bytes), FormatCount(model.size_parameters()),
                    FormatFigure(model.validation_loss()), KeptText(model)});
  }
  session.PrintTable(rows);
}

int Download(TrainingClient& client, const v1::Artifact& model,
             const Arguments& arguments, const Session& session) {
  absl::Status status;
  {
    Interrupts interrupts([&client] { client.Stop(); });
    status = DownloadModel(client, model, arguments.directory, arguments.force);
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

// Downloads the model to where downloaded models are kept, and from there to
// the bucket.
int DownloadToBucket(TrainingClient& client, const v1::Artifact& model,
                     const Arguments& arguments, const Session& session) {
  std::atomic<bool> cancelled{false};
  const auto ids = ParseArtifactName(model.name());
  if (!ids) {
    return session.Fail(absl::StrCat(model.name(), " is no model's name"),
                        kExitClientError);
  }
  const std::string folder = absl::StrCat(session.env.state_folder, "/models/",
                                          ids->first, "/", ids->second);
  absl::Status downloaded;
  absl::StatusOr<int> uploaded = 0;
  {
    Interrupts interrupts([&] {
      cancelled = true;
      client.Stop();
    });
    const auto run = [&]() -> absl::StatusOr<int> {
      ASSIGN_OR_RETURN(const BucketFolder bucket,
                       BucketFolder::Open(arguments.directory, arguments.bucket,
                                          session, cancelled));
      downloaded = DownloadModel(client, model, folder, /*overwrite=*/true);
      if (!downloaded.ok() || cancelled) return 0;
      return bucket.Upload(folder, arguments.force, cancelled);
    };
    uploaded = run();
    if (interrupts.happened()) {
      return session.Fail(
          "interrupted; the same command goes on where this one stopped",
          kExitInterrupted);
    }
  }
  if (!downloaded.ok()) return session.FailRpc(downloaded);
  if (!uploaded.ok()) {
    return session.Fail(Printable(std::string(uploaded.status().message())),
                        ExitCodeOfRpc(uploaded.status()));
  }
  session.Note(absl::StrCat("downloaded ", model.name(), " to ",
                            arguments.directory, ", ", *uploaded,
                            *uploaded == 1 ? " new file" : " new files"));
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
  filter.text = arguments.text;
  filter.kept = arguments.kept;
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
       "KEPT", "AGE"}};
  for (const v1::Model& model : *models) {
    const v1::Artifact& artifact = model.artifact();
    rows.push_back(
        {model.name(),
         model.job_display_name().empty() ? "-"
                                          : Printable(model.job_display_name()),
         FormatBytes(static_cast<double>(model.size_bytes())),
         FormatCount(artifact.size_parameters()),
         FormatFigure(artifact.validation_loss()),
         model.pareto_optimal() ? "yes" : "no", KeptText(artifact),
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
  rows.push_back({"kept", KeptText(artifact)});
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

// Deletes or keeps the model, as the arguments say.
int Change(const std::string& name, const Arguments& arguments,
           const Session& session, ModelClient& models) {
  absl::Status status;
  std::string done;
  if (arguments.remove) {
    if (arguments.model.empty() && !IsAlias(arguments.job)) {
      return session.Fail("models --delete: which one? (--model)", kExitUsage);
    }
    status = models.Delete(name);
    done = absl::StrCat("deleted ", name);
  } else if (!arguments.alias.empty()) {
    const std::string alias = AliasName(arguments.alias);
    status = models.SetAlias(alias, name).status();
    done = absl::StrCat(alias, " stands for ", name);
  } else if (arguments.pin) {
    status = models.Pin(name).status();
    done = absl::StrCat("pinned ", name);
  } else {
    status = models.Unpin(name).status();
    done = absl::StrCat("unpinned ", name);
  }
  if (!status.ok()) return session.FailRpc(status);
  session.Note(done);
  return kExitOk;
}

int Models(Arguments arguments, const Session& session) {
  if (arguments.CountActions() > 1) {
    return session.Fail(
        "models: --download, --describe, --delete, --pin, --unpin, --alias and "
        "--unalias exclude each other",
        kExitUsage);
  }
  const bool describes = arguments.describe || arguments.Changes();
  std::unique_ptr<ModelClient> models;
  if (describes || arguments.job.empty() || IsAlias(arguments.job)) {
    const auto channel = session.Channel();
    if (!channel.ok()) return session.FailRpc(channel.status());
    TrainingClient::Options options;
    options.timeout = options.attempt_timeout = session.timeout;
    models = std::make_unique<ModelClient>(*channel, options);
  }
  if (!arguments.unalias.empty()) {
    const std::string alias = AliasName(arguments.unalias);
    const absl::Status status = models->DeleteAlias(alias);
    if (!status.ok()) return session.FailRpc(status);
    session.Note(absl::StrCat(alias, " stands for no model any more"));
    return kExitOk;
  }
  if (IsAlias(arguments.job)) {
    const auto model = models->GetAlias(AliasName(arguments.job));
    if (!model.ok()) return session.FailRpc(model.status());
    arguments.job = model->name().substr(0, model->name().find("/models/"));
    arguments.model = LastSegment(model->name());
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
  if (arguments.Changes()) {
    return Change(chosen->name(), arguments, session, *models);
  }
  if (IsBucketUrl(arguments.directory)) {
    return DownloadToBucket(*client, *chosen, arguments, session);
  }
  return Download(*client, *chosen, arguments, session);
}

}  // namespace

Verb ModelsVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {
      "models", "List, describe, download, keep or delete models", {}, nullptr};
  verb.arguments = {
      {"job",
       "Job id (all jobs), or a model's alias",
       &arguments->job,
       false,
       {}},
      {"--download",
       "Folder, or s3://BUCKET/FOLDER, to put the files in; a broken download "
       "goes on",
       &arguments->directory,
       false,
       {}},
      {"--describe",
       "Ranks per layer, figures, files",
       &arguments->describe,
       false,
       {}},
      {"--force",
       "Download also over another model",
       &arguments->force,
       false,
       {}},
      {"--delete", "Remove it", &arguments->remove, false, {}},
      {"--pin",
       "Keep it, and its job, until it is unpinned",
       &arguments->pin,
       false,
       {}},
      {"--unpin", "Keep it no longer", &arguments->unpin, false, {}},
      {"--alias",
       "Let NAME@ALIAS stand for it, e.g. intents@production",
       &arguments->alias,
       false,
       {},
       Names::kNothing},
      {"--unalias",
       "End this alias, NAME@ALIAS",
       &arguments->unalias,
       false,
       {},
       Names::kNothing},
      {"--model", "Which model (the newest)", &arguments->model, false, {}},
      {"--label",
       "Only of jobs with this label, KEY=VALUE; repeatable",
       &arguments->labels,
       false,
       {}},
      {"--text",
       "List only those whose name, alias, job name or labels contain this",
       &arguments->text,
       false,
       {},
       Names::kNothing},
      {"--kept",
       "List only those that are pinned or have an alias",
       &arguments->kept,
       false,
       {}},
      {"--limit",
       "List at most so many (50; 0: all)",
       &arguments->limit,
       false,
       {}},
  };
  for (Argument& one : BucketArguments(&arguments->bucket)) {
    verb.arguments.push_back(std::move(one));
  }
  verb.examples = kExamples;
  verb.run = [=] { return Models(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
