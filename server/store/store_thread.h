#ifndef COMERA_SERVER_STORE_STORE_THREAD_H_
#define COMERA_SERVER_STORE_STORE_THREAD_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "server/store/job_store.h"

namespace comera::server {

// The thread that owns a JobStore and commits in groups: all batches that wait
// when it is free go into one transaction.
//
// Methods may be called from any thread; callbacks run on the store's thread,
// in the order of the calls. After a failed commit nothing more is written:
// every later call fails with the same status, because memory is ahead of the
// disk, and `on_failure` is called once. The destructor commits what was given
// before it.
//
// A full disk is no failure where `on_full` is given: what could not be
// committed waits for Retry(), with the writes after it, while reads go on.
class StoreThread {
 public:
  using Done = std::function<void(const absl::Status&)>;
  using EventsDone =
      std::function<void(absl::StatusOr<std::vector<v1::JobEvent>>)>;

  // How long a commit took, how many writes it held, whether it succeeded; on
  // the store's thread.
  using OnCommit =
      std::function<void(absl::Duration took, size_t writes, bool ok)>;
  // The disk is full. Returns whether room was made, so that the commit is
  // worth another try at once; on the store's thread.
  using OnFull = std::function<bool(const absl::Status&)>;

  // `store` must outlive the thread.
  StoreThread(JobStore* store, Done on_failure, OnCommit on_commit = nullptr,
              OnFull on_full = nullptr);
  ~StoreThread();

  // Tries again what waits for room on the disk, if anything does.
  void Retry();
  // The same, but from now on a disk that is still full is a failure, so that
  // nobody waits for room any more.
  void RetryOrFail();

  void Write(StoreBatch batch, Done done);
  // Calls `read` on the store's thread, after the writes before it.
  void Read(std::function<void(JobStore*)> read);
  void ReadEvents(std::string job, int64_t after, int64_t last, int limit,
                  EventsDone done);

 private:
  struct Request {
    StoreBatch batch;
    Done done;
    // Set for reads: runs on its own, after the writes before it.
    std::function<void()> read;
  };

  // What waits for room on the disk.
  struct Stalled {
    StoreBatch batch;
    std::vector<Done> dones;
    // The writes after it.
    std::vector<Request> later;
  };
  enum class Room { kNothingNew, kRetry, kRetryOrFail };

  void Loop();
  void CommitGroup(std::vector<Request> group);
  // Returns false if the disk is full, in which case nothing was done.
  bool CommitBatch(const StoreBatch& batch, size_t writes);
  void RetryStalled();

  JobStore* const store_;
  const Done on_failure_;
  const OnCommit on_commit_;
  const OnFull on_full_;
  // Only the store's thread touches it.
  std::optional<Stalled> stalled_;
  bool never_wait_ = false;
  // First failed commit; only the store's thread touches it.
  absl::Status failure_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Request> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Room room_ ABSL_GUARDED_BY(mutex_) = Room::kNothingNew;
  std::thread thread_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_STORE_STORE_THREAD_H_
