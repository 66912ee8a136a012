#ifndef COMERA_WORKER_CHECKPOINT_PEER_TRANSFERS_H_
#define COMERA_WORKER_CHECKPOINT_PEER_TRANSFERS_H_

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/steady_time.h"

namespace comera::worker {

// Bounds what other workers may have this one hold while they send or read
// training states: memory, and the threads of calls that stand still.
//
// One state of a job is received at a time: a caller that begins again takes
// the place of the call before, whose connection may have broken unnoticed.
// Thread-safe. All transfers must end before this.
class PeerTransfers {
 public:
  struct Options {
    // What the states that are being received may hold together.
    size_t max_bytes = 0;
    // States of one job that may be read at once.
    int max_reads = 8;
    // A transfer in which nothing moves for so long is cancelled.
    absl::Duration idle = absl::Seconds(60);
    // The time between two looks at the transfers; infinite means that only
    // CancelIdle() looks.
    absl::Duration interval = absl::Seconds(1);
    std::function<absl::Time()> now = SteadyNow;
  };

  // One call. It counts until its destruction, which must come before that of
  // what its `cancel` uses.
  class Transfer {
   public:
    ~Transfer();
    // The transfer has moved, and holds so many bytes more. ResourceExhausted:
    // there is no room for them. Aborted: the transfer was cancelled, because
    // the caller has begun again. DeadlineExceeded: because nothing moved.
    absl::Status Move(size_t bytes = 0);

   private:
    friend class PeerTransfers;
    Transfer(PeerTransfers* owner, std::string job, bool receives,
             std::function<void()> cancel);

    PeerTransfers* const owner_;
    const std::string job_;
    const bool receives_;
    const std::function<void()> cancel_;
    // Guarded by the owner's mutex.
    absl::Time moved_;
    size_t bytes_ = 0;
    absl::Status status_;
  };

  explicit PeerTransfers(Options options);
  ~PeerTransfers();

  // A state of the job is received. `cancel` must not block.
  std::unique_ptr<Transfer> BeginReceive(const std::string& job,
                                         std::function<void()> cancel);
  // A state of the job is read. ResourceExhausted: too many are.
  absl::StatusOr<std::unique_ptr<Transfer>> BeginRead(
      const std::string& job, std::function<void()> cancel);

  // Cancels the transfers that stand still.
  void CancelIdle();

 private:
  static void Cancel(Transfer& transfer, absl::Status why);
  void Loop();

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable ending_changed_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  // What the states that are being received hold.
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<Transfer*> transfers_ ABSL_GUARDED_BY(mutex_);
  // Declared last, because it starts when everything else is in place.
  std::thread thread_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_PEER_TRANSFERS_H_
