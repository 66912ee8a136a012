// Brings the checkpoint that a job starts from to the machine of its member 0.
#ifndef COMERA_WORKER_CHECKPOINT_START_FETCH_H_
#define COMERA_WORKER_CHECKPOINT_START_FETCH_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/files/path_below.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace comera::worker {

struct StartFetchOptions {
  absl::Duration min_backoff = absl::Milliseconds(200);
  absl::Duration max_backoff = absl::Seconds(5);
  // One try is given up when no byte has come for this long.
  absl::Duration idle = absl::Seconds(60);
};

// Downloads `jobs/{job}/checkpoints/{step}` to `path`, where it appears whole
// and verified or not at all; does nothing if there is a plain file. It grows
// beside it on disk, and is never in memory as a whole. Tries again, from the
// offset that was reached, while the coordinator cannot be reached, until
// `abandoned` is set. `on_progress`, which may be empty, is called for every
// part with the number of bytes that are here. Aborted: `abandoned` was set.
// NotFound, PermissionDenied, FailedPrecondition: the coordinator's answer.
// DataLoss: what it sends is damaged. ResourceExhausted: this disk is full.
// Other errors are those of OpenFolder.
absl::Status FetchStart(
    const StartFetchOptions& options,
    const std::shared_ptr<grpc::Channel>& channel,
    const std::string& checkpoint, const PathBelow& path,
    const std::atomic<bool>& abandoned,
    const std::function<void(int64_t bytes)>& on_progress = nullptr);

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_START_FETCH_H_
