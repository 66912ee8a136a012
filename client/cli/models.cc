// comera models: lists a job's models and downloads one.
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/cli/exit_codes.h"
#include "client/cli/model_download.h"
#include "client/cli/text_format.h"
#include "client/cli/verbs.h"

namespace comera::client {
namespace {

struct Arguments {
  std::string job;
  std::string directory;
  std::string model;
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
  *session.env.out << FormatTable(rows) << std::flush;
}

int Models(const Arguments& arguments, const Session& session) {
  const absl::StatusOr<std::string> name = Session::JobNameFrom(arguments.job);
  if (!name.ok()) {
    return session.Fail(std::string(name.status().message()), kExitUsage);
  }
  auto client = session.Connect();
  const absl::StatusOr<v1::Job> job = client->Get(*name);
  if (!job.ok()) return session.FailRpc(job.status());
  if (arguments.directory.empty()) {
    PrintModels(*job, session);
    return kExitOk;
  }
  // Newest last.
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
  const absl::Status status =
      DownloadModel(*client, *chosen, arguments.directory);
  if (!status.ok()) return session.FailRpc(status);
  session.Note(
      absl::StrCat("downloaded ", chosen->name(), " to ", arguments.directory));
  return kExitOk;
}

}  // namespace

Verb ModelsVerb(Session* session) {
  auto arguments = std::make_shared<Arguments>();
  Verb verb = {"models", "List or download a job's models", {}, nullptr};
  verb.arguments = {
      {"job", "Job id", &arguments->job, true, {}},
      {"--download",
       "Folder to put the files in",
       &arguments->directory,
       false,
       {}},
      {"--model", "Which model (the newest)", &arguments->model, false, {}},
  };
  verb.run = [=] { return Models(*arguments, *session); };
  return verb;
}

}  // namespace comera::client
