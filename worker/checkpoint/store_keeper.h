#ifndef COMERA_WORKER_CHECKPOINT_STORE_KEEPER_H_
#define COMERA_WORKER_CHECKPOINT_STORE_KEEPER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/checkpoint/checkpoint_file.h"
#include "worker/checkpoint/checkpoint_names.h"
#include "worker/checkpoint/stored_checkpoints.h"
#include "worker/files/path_below.h"
#include "worker/report/artifact_store.h"

namespace comera::worker {

// Brings training states that were saved on this machine to the shared store,
// deletes there what the coordinator says, and tells what the store has, in the
// background. Of a job only the newest state waits for its turn. One that does
// not arrive is tried again until a newer one is to be stored. A state of an
// earlier attempt than what the store has is not brought there.
//
// Runs a thread of its own from construction to destruction, on which its
// callbacks are called. Thread-safe.
class StoreKeeper {
 public:
  struct Task {
    std::string job;
    CheckpointName name;
    PathBelow path;  // the saved file on this machine
  };
  struct Options {
    // How often all of the store is listed, for each thousand states that it
    // has, which is a page of a bucket's listing; how seldom at most, and how
    // soon again if that fails. What a machine that is gone uploaded last is
    // found so, and the coordinator waits minutes for it (--checkpoint_wait).
    absl::Duration relist = absl::Minutes(4);
    absl::Duration relist_most = absl::Hours(1);
    absl::Duration relist_after_failure = absl::Minutes(1);
    // How often leftovers of uploads are looked for.
    absl::Duration tidy = absl::Hours(1);
    // How soon a state is tried again.
    absl::Duration retry_after = absl::Seconds(30);
    // When what is left of an upload counts as given up.
    absl::Duration leftovers_age = absl::Hours(48);
    // Called after each try, but not where there was nothing to copy: the file
    // is gone, or the store has a later attempt's. May be empty.
    std::function<void(const Task& task, int64_t bytes,
                       const absl::Status& status)>
        on_tried;
    // Called with each state of a job that is in the store when one is to be
    // stored: a machine that is gone may not have told of its last ones. May be
    // empty.
    std::function<void(const std::string& job, const StateKey& key)> on_found;
    // Called with all that the store has, at the start and then again and
    // again. May be empty.
    std::function<void(StoredStates states)> on_listed;
  };

  // `store` must outlive this.
  StoreKeeper(const Options& options, ArtifactStore* store);
  ~StoreKeeper();

  void Add(Task task);
  // No job needs the state any more: deletes it.
  void Expire(const std::string& job, const StateKey& key);
  // Drops the job's waiting states: the job no longer exists.
  void Forget(const std::string& job);
  // Waits until nothing is left to do that was not tried. Returns false if that
  // takes longer than `timeout`.
  bool Flush(absl::Duration timeout);

 private:
  struct Delayed {
    Task task;
    absl::Time due;  // by SteadyNow
  };

  void Loop();
  // Moves the tasks that are due from `delayed_` to `waiting_`.
  void WakeDelayed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Time NextDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns how soon to list again.
  absl::Duration List();
  void Tidy();
  void Delete(const std::string& job, const StateKey& key);
  void Copy(const Task& task);
  // Aborted: the store has a state of a later attempt.
  absl::Status Store(const Task& task, const CheckpointFile& file);

  const Options options_;
  ArtifactStore* const store_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // By job.
  std::map<std::string, Task> waiting_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Delayed> delayed_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<std::string, StateKey>> expired_ ABSL_GUARDED_BY(mutex_);
  absl::Time next_listing_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time next_tidying_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  // Ends the exchange with the store that is under way.
  std::atomic<bool> abandoned_{false};
  // Declared last, because it starts when everything else is in place.
  std::thread thread_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_STORE_KEEPER_H_
