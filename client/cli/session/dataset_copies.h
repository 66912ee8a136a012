// Copies of the datasets that a job reads, for programs on this machine.
#ifndef COMERA_CLIENT_CLI_SESSION_DATASET_COPIES_H_
#define COMERA_CLIENT_CLI_SESSION_DATASET_COPIES_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "client/cli/session/temporary_folder.h"
#include "client/dataset_client.h"
#include "comera/v1/job.pb.h"

namespace comera::client {

// A folder with copies of files, which is removed with this object.
class DatasetCopies {
 public:
  // Downloads the files of datasets that the job's paths name, and makes the
  // paths name the copies. InvalidArgument: a path is no reference to a
  // dataset. NotFound: a dataset has no such file. Errors of DatasetClient.
  static absl::StatusOr<std::unique_ptr<DatasetCopies>> Fetch(
      v1::JobSpec* spec, DatasetClient* client);

 private:
  explicit DatasetCopies(std::unique_ptr<TemporaryFolder> folder)
      : folder_(std::move(folder)) {}

  absl::Status FetchPath(const std::string& field, std::string* path,
                         DatasetClient* client);

  const std::unique_ptr<TemporaryFolder> folder_;
};

// Whether the job reads a dataset.
bool ReadsDatasets(v1::JobSpec spec);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SESSION_DATASET_COPIES_H_
