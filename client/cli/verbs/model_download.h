// Downloads of whole models.
#ifndef COMERA_CLIENT_CLI_VERBS_MODEL_DOWNLOAD_H_
#define COMERA_CLIENT_CLI_VERBS_MODEL_DOWNLOAD_H_

#include <string>

#include "absl/status/status.h"
#include "client/training_client.h"

namespace comera::client {

// Puts all files of `model` into `directory`, which is made if needed.
// DataLoss: damaged, or a file name that is none.
absl::Status DownloadModel(TrainingClient& client, const v1::Artifact& model,
                           const std::string& directory);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_VERBS_MODEL_DOWNLOAD_H_
