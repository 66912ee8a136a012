// Downloads a model's files after checking their names.

#include "client/cli/verbs/model_download.h"

#include "absl/strings/str_cat.h"
#include "client/artifact_file.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace comera::client {

absl::Status DownloadModel(TrainingClient& client, const v1::Artifact& model,
                           const std::string& directory) {
  RETURN_IF_ERROR(MakeDirectories(directory));
  for (const v1::ArtifactFile& file : model.files()) {
    if (!IsPlainFileName(file.path())) {
      return absl::DataLossError(
          absl::StrCat(model.name(), " names a file that is none"));
    }
    RETURN_IF_ERROR(client.DownloadArtifact(
        model.name(), file, absl::StrCat(directory, "/", file.path())));
  }
  return absl::OkStatus();
}

}  // namespace comera::client
