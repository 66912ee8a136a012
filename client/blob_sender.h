#ifndef COMERA_CLIENT_BLOB_SENDER_H_
#define COMERA_CLIENT_BLOB_SENDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/call_runner.h"
#include "client/dataset_client.h"
#include "client/local_files.h"
#include "comera/v1/dataset_service.grpc.pb.h"

namespace comera::client {

// Uploads the contents of a dataset's files to the server. Not thread-safe.
class BlobSender {
 public:
  // All pointers must outlive the sender.
  BlobSender(v1::DatasetService::Stub* stub, CallRunner* runner,
             DatasetClient::ProgressCallback on_progress);

  // Computes the files' checksums. DataLoss: the size of a file changed
  // meanwhile. Cancelled: the runner was stopped.
  absl::StatusOr<std::vector<v1::DatasetFile>> ReadFiles(
      const std::vector<LocalFile>& files);
  // Sends the blobs that the server lacks; `entries` is the result of
  // ReadFiles.
  absl::Status SendMissing(const std::vector<LocalFile>& files,
                           const std::vector<v1::DatasetFile>& entries);

 private:
  absl::StatusOr<std::vector<v1::BlobState>> Query(
      const std::vector<v1::DatasetFile>& entries);
  absl::Status Send(const LocalFile& file, const v1::DatasetFile& entry);
  // Makes one try; sets `offset` to where it began.
  CallRunner::StreamEnd TrySend(grpc::ClientContext* context,
                                const LocalFile& file,
                                const v1::DatasetFile& entry, int64_t* offset);
  void Report();

  v1::DatasetService::Stub* const stub_;
  CallRunner* const runner_;
  const DatasetClient::ProgressCallback on_progress_;
  DatasetClient::Progress progress_;
  // The bytes of files that were sent completely.
  int64_t finished_bytes_ = 0;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_BLOB_SENDER_H_
