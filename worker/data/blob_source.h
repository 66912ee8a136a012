#ifndef COMERA_WORKER_DATA_BLOB_SOURCE_H_
#define COMERA_WORKER_DATA_BLOB_SOURCE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace comera::worker {

// A source of blobs, which are named by their SHA-256. Thread-safe.
class BlobSource {
 public:
  // Receives the next bytes; an error ends the fetch and becomes its result.
  using Sink = std::function<absl::Status(std::string_view data)>;

  virtual ~BlobSource() = default;
  // Passes the blob's bytes from `offset` on to `sink`. OK: all bytes came.
  // NotFound: there is no such blob. Cancelled: `cancelled` was set.
  // Unavailable: the bytes stopped coming; try again from there. Aborted: the
  // name stands for other bytes by now.
  virtual absl::Status Fetch(const std::string& sha256, int64_t offset,
                             const std::atomic<bool>& cancelled,
                             const Sink& sink) = 0;
};

// Fetches blobs from the coordinator. A fetch that receives nothing for `stall`
// ends with Unavailable.
class RemoteBlobs : public BlobSource {
 public:
  explicit RemoteBlobs(std::shared_ptr<grpc::Channel> channel,
                       absl::Duration stall = absl::Seconds(30))
      : channel_(std::move(channel)), stall_(stall) {}

  absl::Status Fetch(const std::string& sha256, int64_t offset,
                     const std::atomic<bool>& cancelled,
                     const Sink& sink) override;

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const absl::Duration stall_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_DATA_BLOB_SOURCE_H_
