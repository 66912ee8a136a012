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

namespace comera::worker {

// Fetches the datasets of ranks before they start, each on a thread of its own,
// and holds them until the rank has ended. Thread-safe. Destruction cancels
// what is under way; no callback comes after it.
class DataFetcher {
 public:
  using Id = int64_t;  // a rank process's

  struct Options {
    // While the coordinator cannot be reached, or sends nothing, tries go on
    // for so long without a byte.
    absl::Duration patience = absl::Minutes(10);
    absl::Duration min_backoff = absl::Milliseconds(200);
    absl::Duration max_backoff = absl::Seconds(5);
    // Between two heartbeats.
    absl::Duration report_interval = absl::Seconds(1);
  };

  // Called on threads of the fetcher, without a lock held.
  class Observer {
   public:
    virtual ~Observer() = default;
    // A heartbeat of the rank, which is not there yet, in regular intervals;
    // perhaps one more right after OnFetched.
    virtual void OnFetching(Id id, const v1::TrainerEvent& heartbeat) = 0;
    // The spec with local paths; the last call for the id. Cancelled: nobody
    // wants the rank any more. NotFound, InvalidArgument, DataLoss: the data's
    // fault. ResourceExhausted: no room. Others: the network's.
    virtual void OnFetched(Id id, absl::StatusOr<v1::JobSpec> spec) = 0;
  };

  // All must outlive the fetcher.
  DataFetcher(const Options& options, DatasetCache* cache, BlobSource* source,
              Observer* observer);
  ~DataFetcher();

  void Start(Id id, const v1::MemberAssignment& assignment);
  // The fetch ends soon; one that has ended is left alone.
  void Cancel(Id id);
  // The rank's process has ended, or never began: its data may go.
  void Release(Id id);

 private:
  struct Task {
    explicit Task(DatasetCache* cache) : lease(cache) {}
    v1::MemberAssignment assignment;
    std::atomic<bool> cancelled{false};
    // Guarded by mutex_: how far it is, and what keeps it; its fetch is over,
    // its data are not needed, its thread does nothing more.
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
  std::thread reporter_;  // Last: starts when all else is there.
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_DATA_DATA_FETCHER_H_
