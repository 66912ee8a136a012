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

// Brings the contents of one upload's files to the server. Not thread-safe.
class BlobSender {
 public:
  // All must outlive the sender.
  BlobSender(v1::DatasetService::Stub* stub, CallRunner* runner,
             DatasetClient::ProgressCallback on_progress);

  // Computes the files' checksums. DataLoss: a file's size changes meanwhile.
  // Cancelled: the runner was stopped.
  absl::StatusOr<std::vector<v1::DatasetFile>> ReadFiles(
      const std::vector<LocalFile>& files);
  // Sends what the server does not have. `entries` are ReadFiles' of `files`.
  absl::Status SendMissing(const std::vector<LocalFile>& files,
                           const std::vector<v1::DatasetFile>& entries);

 private:
  absl::StatusOr<std::vector<v1::BlobState>> Query(
      const std::vector<v1::DatasetFile>& entries);
  absl::Status Send(const LocalFile& file, const v1::DatasetFile& entry);
  // One try; sets `offset` to where it began.
  CallRunner::StreamEnd TrySend(grpc::ClientContext* context,
                                const LocalFile& file,
                                const v1::DatasetFile& entry, int64_t* offset);
  void Report();

  v1::DatasetService::Stub* const stub_;
  CallRunner* const runner_;
  const DatasetClient::ProgressCallback on_progress_;
  DatasetClient::Progress progress_;
  // Of files that were sent whole.
  int64_t finished_bytes_ = 0;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_BLOB_SENDER_H_
