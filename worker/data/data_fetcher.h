#ifndef COMERA_WORKER_DATA_DATA_FETCHER_H_
#define COMERA_WORKER_DATA_DATA_FETCHER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comera/v1/progress.pb.h"
#include "comera/v1/worker_service.pb.h"
#include "worker/data/dataset_cache.h"
#include "worker/data/dataset_view.h"
#include "worker/data/remote_files.h"

namespace comera::worker {

// Fetches the data of members, of datasets and from URLs, before they start,
// each on a thread of its own, and holds them until the member has ended.
// Thread-safe. Destruction cancels running fetches; no callback follows it.
class DataFetcher {
 public:
  // The id of a member's process.
  using Id = int64_t;

  struct Options {
    // How long tries go on without a byte while the coordinator cannot be
    // reached or sends nothing.
    absl::Duration patience = absl::Minutes(10);
    absl::Duration min_backoff = absl::Milliseconds(200);
    absl::Duration max_backoff = absl::Seconds(5);
    // The time between two heartbeats.
    absl::Duration report_interval = absl::Seconds(1);
    // The URLs that jobs may name; null for none. Must outlive the fetcher.
    const RemoteFiles* urls = nullptr;
  };

  // Called on threads of the fetcher, without a lock held.
  class Observer {
   public:
    virtual ~Observer() = default;
    // A heartbeat on behalf of the member, whose process does not exist yet, at
    // regular intervals. One more may follow right after OnFetched.
    virtual void OnFetching(Id id, const v1::TrainerEvent& heartbeat) = 0;
    // The spec with local paths; the last call for the id. Cancelled: the
    // member is no longer wanted. NotFound, InvalidArgument, DataLoss: the
    // fault lies with the data. ResourceExhausted: the cache is full. Other
    // errors are the network's.
    virtual void OnFetched(Id id, absl::StatusOr<v1::JobSpec> spec) = 0;
  };

  // All pointers must outlive the fetcher.
  DataFetcher(const Options& options, DatasetCache* cache, BlobSource* source,
              Observer* observer);
  ~DataFetcher();

  void Start(Id id, const v1::MemberAssignment& assignment);
  // Ends the fetch soon; does nothing if it has ended.
  void Cancel(Id id);
  // Lets the data go, because the member's process has ended or never began.
  void Release(Id id);

 private:
  struct Task {
    explicit Task(DatasetCache* cache) : lease(cache) {}
    v1::MemberAssignment assignment;
    std::atomic<bool> cancelled{false};
    // Guarded by mutex_: how far the fetch is and the last problem; whether it
    // is over, its data are released, and its thread has finished.
    FetchProgress progress;
    std::string problem;
    bool fetched = false;
    bool released = false;
    bool ended = false;
    DatasetCache::Lease lease;
    std::thread thread;
  };

  void Run(Id id, Task* task);
  void Report();
  absl::StatusOr<v1::JobSpec> Fetch(Task* task);
  // One try.
  absl::StatusOr<v1::JobSpec> FetchAll(
      Task* task, const std::function<void(const FetchProgress&)>& on_progress);
  // Joins and forgets tasks that ended and are not needed.
  void Reap();

  const Options options_;
  DatasetCache* const cache_;
  BlobSource* const source_;
  Observer* const observer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Id, std::unique_ptr<Task>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  // Declared last, because it starts when everything else is in place.
  std::thread reporter_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_DATA_DATA_FETCHER_H_
