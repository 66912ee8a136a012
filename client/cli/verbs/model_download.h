// Downloads whole models.
#ifndef COMERA_CLIENT_CLI_VERBS_MODEL_DOWNLOAD_H_
#define COMERA_CLIENT_CLI_VERBS_MODEL_DOWNLOAD_H_

#include <string>

#include "absl/status/status.h"
#include "client/training_client.h"

namespace comera::client {

// Downloads all files of `model` to `directory`, which is made if needed.
// DataLoss: a file is damaged, or its name is unsafe.
absl::Status DownloadModel(TrainingClient& client, const v1::Artifact& model,
                           const std::string& directory);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_VERBS_MODEL_DOWNLOAD_H_
