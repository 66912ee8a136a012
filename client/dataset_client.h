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
// those of TrainingClient; statuses those of dataset_service.proto.
class DatasetClient {
 public:
  DatasetClient(std::shared_ptr<grpc::Channel> channel,
                const TrainingClient::Options& options);
  // Stops first; no call may be running.
  ~DatasetClient();

  using Labels = std::map<std::string, std::string>;
  struct Progress {
    // Reading for the checksums comes first.
    bool sending = false;
    int64_t done_bytes = 0;
    int64_t total_bytes = 0;
    // Bytes that the server had already.
    int64_t known_bytes = 0;
  };
  using ProgressCallback = std::function<void(const Progress&)>;

  // Sends what the server does not have, then makes the version. When it is cut
  // short, the next one with the same files goes on where this one was.
  // DataLoss: a file changed meanwhile.
  absl::StatusOr<v1::Dataset> Upload(const std::string& id,
                                     const std::vector<LocalFile>& files,
                                     const Labels& labels,
                                     const ProgressCallback& on_progress);

  // `datasets/{dataset}`.
  absl::StatusOr<v1::Dataset> Get(const std::string& name);
  // By name, over all pages; with all these labels.
  absl::StatusOr<std::vector<v1::Dataset>> List(const Labels& labels);
  // Of a version, or of the newest of a dataset.
  absl::StatusOr<std::vector<v1::DatasetFile>> ListFiles(
      const std::string& name);
  absl::StatusOr<v1::DatasetDescription> Describe(
      const v1::DescribeDatasetRequest& request);
  // The bytes freed.
  absl::StatusOr<int64_t> Delete(const std::string& name);
  // To a file, which appears whole or not at all; a broken download goes on
  // where it was.
  absl::Status Download(const v1::DatasetFile& file, const std::string& path);

  // Ends all running and later calls with Cancelled.
  void Stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_DATASET_CLIENT_H_
