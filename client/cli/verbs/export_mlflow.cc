// comera export --format mlflow: writes runs into MLflow's folders.
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "client/artifact_file.h"
#include "client/cli/output/message_text.h"
#include "client/cli/output/text_format.h"
#include "client/cli/session/exit_codes.h"
#include "client/cli/session/interrupts.h"
#include "client/cli/verbs/export_formats.h"
#include "client/cli/verbs/export_source.h"
#include "client/export/mlflow_run.h"
#include "client/export/mlflow_server.h"
#include "common/files.h"
#include "common/sha256.h"
#include "common/status_macros.h"

namespace comera::client {
namespace {

namespace fs = std::filesystem;

// Whether an earlier export has left the file intact.
bool IsThere(const std::string& path, const v1::ArtifactFile& file) {
  std::error_code error;
  if (fs::file_size(path, error) != static_cast<uintmax_t>(file.size_bytes()) ||
      error) {
    return false;
  }
  std::ifstream in(path, std::ios::binary);
  Sha256Stream sha256;
  char block[1 << 16];
  while (in.read(block, sizeof(block)) || in.gcount() > 0) {
    sha256.Add({block, static_cast<size_t>(in.gcount())});
  }
  return sha256.Finish() == file.sha256();
}

absl::Status FetchModels(const v1::Job& job, const std::string& artifacts,
                         TrainingClient& client, MlflowRun* run) {
  std::vector<v1::Artifact> models;
  for (const v1::Artifact& model : job.models()) {
    const std::string id = LastSegment(model.name());
    if (!IsPlainFileName(id)) {
      return absl::DataLossError("the server names a model that is none");
    }
    const std::string folder = absl::StrCat(artifacts, "/", id);
    RETURN_IF_ERROR(MakeDirectories(folder));
    for (const v1::ArtifactFile& file : model.files()) {
      if (!IsPlainFileName(file.path())) {
        return absl::DataLossError(
            absl::StrCat(model.name(), " names a file that is none"));
      }
      const std::string path = absl::StrCat(folder, "/", file.path());
      if (IsThere(path, file)) continue;
      RETURN_IF_ERROR(client.DownloadArtifact(model.name(), file, path));
    }
    RETURN_IF_ERROR(WriteFileAtomically(folder + "/MLmodel",
                                        MlModel(model, job, id, run->id)));
    models.push_back(model);
  }
  if (!models.empty()) {
    run->tags["mlflow.log-model.history"] = MlModelHistory(models, run->id);
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ExportJob(const v1::Job& job, const std::string& root,
                                  const ExportArguments& arguments,
                                  TrainingClient& client) {
  MlflowRunBuilder builder(job);
  int64_t lost = 0;
  ASSIGN_OR_RETURN(const int64_t newest, NewestEvent(client, job.name()));
  if (newest > 0) {
    TrainingClient::WatchOptions options;
    // The stream of an ended job ends by itself after its last event.
    if (!IsFinal(job.state())) options.until_sequence = newest;
    RETURN_IF_ERROR(client
                        .Watch(job.name(), options, {},
                               [&](const v1::JobEvent& event) {
                                 lost += event.dropped().count();
                                 builder.Add(event);
                               })
                        .status());
  }
  MlflowRun run = builder.RunOf(job);
  ASSIGN_OR_RETURN(const std::string artifacts,
                   MlflowArtifactFolder(root, run));
  RETURN_IF_ERROR(
      WriteFileAtomically(artifacts + "/job.yaml", ToYaml(job.spec())));
  if (!arguments.no_models) {
    RETURN_IF_ERROR(FetchModels(job, artifacts, client, &run));
  }
  RETURN_IF_ERROR(WriteMlflowRun(root, run));
  return lost;
}

}  // namespace

int ExportMlflow(const ExportArguments& arguments, const Session& session) {
  if (IsMlflowUri(arguments.to)) {
    return ExportToMlflowServer(arguments, session);
  }
  if (arguments.follow) {
    return session.Fail(
        "--follow goes with --format tensorboard, and with mlflow's --to "
        "http://HOST:PORT",
        kExitUsage);
  }
  const auto source =
      FindExportSource(arguments.what, arguments.follow, session);
  if (!source.ok()) return FailExportSource(source.status(), session);
  const std::string root = (fs::path(session.env.working_folder) / arguments.to)
                               .lexically_normal()
                               .string();
  const auto client = session.Connect();
  Interrupts interrupts([&] { client->Stop(); });
  int64_t lost = 0;
  for (const v1::Job& job : source->jobs) {
    const auto exported = ExportJob(job, root, arguments, *client);
    if (interrupts.happened()) {
      return session.Fail("interrupted; the same command goes on",
                          kExitInterrupted);
    }
    if (!exported.ok()) return session.FailRpc(exported.status());
    lost += *exported;
  }
  if (source->sweep) {
    const absl::Status status =
        WriteMlflowRun(root, SweepRunOf(*source->sweep));
    if (!status.ok()) {
      return session.Fail(std::string(status.message()), kExitClientError);
    }
  }
  if (lost > 0) {
    session.Note(absl::StrCat(lost, " progress samples were left out"));
  }
  session.Note(absl::StrCat(source->jobs.size() + (source->sweep ? 1 : 0),
                            " runs are in ", arguments.to,
                            ": mlflow ui --backend-store-uri ", arguments.to));
  return kExitOk;
}

}  // namespace comera::client
