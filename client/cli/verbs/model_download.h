// Downloads whole models.
#ifndef COMERA_CLIENT_CLI_VERBS_MODEL_DOWNLOAD_H_
#define COMERA_CLIENT_CLI_VERBS_MODEL_DOWNLOAD_H_

#include <string>

#include "absl/status/status.h"
#include "client/training_client.h"

namespace comera::client {

// Whether the file exists with the coordinator's size and checksum.
bool IsThere(const std::string& path, const v1::ArtifactFile& file);

// Downloads all files of `model` to `directory`, which is made if needed; those
// that are there already stay. DataLoss: a file is damaged, or its name is
// unsafe. FailedPrecondition: another model is there, and `overwrite` is not
// set.
absl::Status DownloadModel(TrainingClient& client, const v1::Artifact& model,
                           const std::string& directory, bool overwrite);

// Whether a model could be downloaded to `directory`, before there is one: it,
// or the nearest folder above it, can be written, and it has no model unless
// that may be overwritten. FailedPrecondition.
absl::Status CheckModelFolder(const std::string& directory, bool overwrite);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_VERBS_MODEL_DOWNLOAD_H_
