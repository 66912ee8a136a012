// The client library's part for datasets.
#ifndef COMERA_CLIENT_DATASET_CLIENT_H_
#define COMERA_CLIENT_DATASET_CLIENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/local_files.h"
#include "client/training_client.h"
#include "comera/v1/dataset_service.pb.h"

namespace comera::client {

// Uploads, lists and deletes datasets. Retries, deadlines and thread safety are
// those of TrainingClient; statuses are those of dataset_service.proto.
class DatasetClient {
 public:
  DatasetClient(std::shared_ptr<grpc::Channel> channel,
                const TrainingClient::Options& options);
  // Calls Stop(); all other calls must have returned.
  ~DatasetClient();

  using Labels = std::map<std::string, std::string>;
  struct Progress {
    // Whether contents are being sent; reading for the checksums comes first.
    bool sending = false;
    int64_t done_bytes = 0;
    int64_t total_bytes = 0;
    // The bytes that the server had already.
    int64_t known_bytes = 0;
  };
  using ProgressCallback = std::function<void(const Progress&)>;

  // Sends the contents that the server lacks, then creates the version. An
  // upload that was cut short is continued by the next one with the same files.
  // DataLoss: a file changed meanwhile.
  absl::StatusOr<v1::Dataset> Upload(const std::string& id,
                                     const std::vector<LocalFile>& files,
                                     const Labels& labels,
                                     const ProgressCallback& on_progress);

  // Looks up `datasets/{dataset}`.
  absl::StatusOr<v1::Dataset> Get(const std::string& name);
  // Returns the datasets with all these labels, by name, from all pages.
  absl::StatusOr<std::vector<v1::Dataset>> List(const Labels& labels);
  // Lists the files of a version, or of a dataset's newest version.
  absl::StatusOr<std::vector<v1::DatasetFile>> ListFiles(
      const std::string& name);
  absl::StatusOr<v1::DatasetDescription> Describe(
      const v1::DescribeDatasetRequest& request);
  // Returns the number of bytes freed.
  absl::StatusOr<int64_t> Delete(const std::string& name);
  // Downloads to `path`, where the file appears whole or not at all; a broken
  // download is resumed.
  absl::Status Download(const v1::DatasetFile& file, const std::string& path);

  // Ends all running and later calls with Cancelled.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_DATASET_CLIENT_H_
