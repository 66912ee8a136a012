// Brings the checkpoint that a job starts from to the machine of its member 0.
#ifndef COMERA_WORKER_CHECKPOINT_START_FETCH_H_
#define COMERA_WORKER_CHECKPOINT_START_FETCH_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace comera::worker {

struct StartFetchOptions {
  absl::Duration min_backoff = absl::Milliseconds(200);
  absl::Duration max_backoff = absl::Seconds(5);
  // The limit of one try.
  absl::Duration timeout = absl::Minutes(5);
};

// Downloads `jobs/{job}/checkpoints/{step}` to `path`, where it appears whole
// or not at all; does nothing if the file exists. Tries again while the
// coordinator cannot be reached, until `abandoned` is set. The reader verifies
// the contents, because a checkpoint carries its own checksum. Aborted:
// `abandoned` was set. NotFound, DataLoss, PermissionDenied,
// FailedPrecondition: the coordinator's answer.
absl::Status FetchStart(const StartFetchOptions& options,
                        const std::shared_ptr<grpc::Channel>& channel,
                        const std::string& checkpoint, const std::string& path,
                        const std::atomic<bool>& abandoned);

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_START_FETCH_H_
