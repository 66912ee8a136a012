#ifndef COMERA_SERVER_STORE_STORE_THREAD_H_
#define COMERA_SERVER_STORE_STORE_THREAD_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

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
class StoreThread {
 public:
  using Done = std::function<void(const absl::Status&)>;
  using EventsDone =
      std::function<void(absl::StatusOr<std::vector<v1::JobEvent>>)>;

  // How long a commit took, how many writes it held, whether it succeeded; on
  // the store's thread.
  using OnCommit =
      std::function<void(absl::Duration took, size_t writes, bool ok)>;

  // `store` must outlive the thread.
  StoreThread(JobStore* store, Done on_failure, OnCommit on_commit = nullptr);
  ~StoreThread();

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

  void Loop();
  void CommitGroup(std::vector<Request> group);

  JobStore* const store_;
  const Done on_failure_;
  const OnCommit on_commit_;
  // First failed commit; only the store's thread touches it.
  absl::Status failure_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Request> queue_;  // guarded by mutex_
  bool stopping_ = false;      // guarded by mutex_
  std::thread thread_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_STORE_STORE_THREAD_H_
