// Copies a training state from one job's folder to another's.
#ifndef COMERA_WORKER_CHECKPOINT_STATE_COPY_H_
#define COMERA_WORKER_CHECKPOINT_STATE_COPY_H_

#include <atomic>

#include "absl/status/status.h"
#include "worker/checkpoint/checkpoint_file.h"
#include "worker/files/path_below.h"

namespace comera::worker {

// Copies the open file to `to`, where it appears whole and verified or not at
// all, over what is there. What is verified is what is written. The copy is a
// new file of this process's user with the mode of any other, and grows in a
// file beside it that is made anew: what members put in its place is replaced,
// neither opened nor followed.
//
// DataLoss: the file is damaged. Aborted: `abandoned` was set. Other errors are
// those of OpenFolder and GrowingFile.
absl::Status CopyState(const CheckpointFile& from, const PathBelow& to,
                       const std::atomic<bool>& abandoned);

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_STATE_COPY_H_
