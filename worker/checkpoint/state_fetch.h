// Brings one training state to this disk, from whichever source has it.
#ifndef COMERA_WORKER_CHECKPOINT_STATE_FETCH_H_
#define COMERA_WORKER_CHECKPOINT_STATE_FETCH_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/checkpoint/state_source.h"
#include "worker/files/path_below.h"

namespace comera::worker {

struct StateFetchOptions {
  // A transfer is given up, and another source tried, when no byte has come for
  // this long.
  absl::Duration idle = absl::Seconds(60);
  // All is given up when for this long no source has brought anything new.
  // There is no bound on the time that a fetch takes which gets on.
  absl::Duration start_wait = absl::Minutes(2);
  // The pauses between rounds over the sources.
  absl::Duration min_backoff = absl::Milliseconds(200);
  absl::Duration max_backoff = absl::Seconds(5);
};

// Tells how many bytes are here, of how many (0: unknown), and from where they
// come. Called for every part.
using OnFetchProgress =
    std::function<void(int64_t bytes, int64_t size, const std::string& source)>;

// Fetches the file of a training state to `path`, where it appears whole and
// verified or not at all, over what is there. It grows beside it, part by part,
// on disk; what has come stays for the next fetch of the same path.
//
// The sources are tried in turn, each from the offset that was reached, until
// one has brought the end. A source that does not have the state, or whose copy
// is damaged, is not tried again; others are, with pauses. Returns the name of
// the source that brought the end.
//
// NotFound: no source has it. DataLoss: some have it, all damaged, and no other
// has it. DeadlineExceeded: nothing has come for `start_wait`. The messages of
// these tell why of each source. Aborted: `abandoned` was set.
// ResourceExhausted and other errors of OpenFolder: the file cannot be written
// here.
absl::StatusOr<std::string> FetchState(
    const StateFetchOptions& options,
    const std::vector<std::unique_ptr<StateSource>>& sources,
    const PathBelow& path, const OnFetchProgress& on_progress,
    const std::atomic<bool>& abandoned);

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_STATE_FETCH_H_
