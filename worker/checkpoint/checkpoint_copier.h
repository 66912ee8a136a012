#ifndef COMERA_WORKER_CHECKPOINT_CHECKPOINT_COPIER_H_
#define COMERA_WORKER_CHECKPOINT_CHECKPOINT_COPIER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "worker/checkpoint/checkpoint_names.h"
#include "worker/checkpoint/copy_troubles.h"
#include "worker/checkpoint/peer_client.h"
#include "worker/checkpoint/store_keeper.h"
#include "worker/files/path_below.h"
#include "worker/report/artifact_store.h"

namespace comera::worker {

// Copies training states that were saved on this machine to other workers'
// memory and, by a StoreKeeper, to the store, in the background. Only the
// newest state of a job waits for its turn, because an older one helps nobody;
// but a snapshot never displaces a checkpoint that is not in the store yet. A
// state of an earlier attempt than what is in a place already is not brought
// there.
//
// Files are read in parts, so that they may have any size. What keeps them from
// arriving is told as long as it lasts.
//
// Runs a thread of its own from construction to destruction. Thread-safe.
class CheckpointCopier {
 public:
  struct Task {
    std::string job;
    CheckpointName name;
    PathBelow path;  // the saved file on this machine
    // The workers that get a copy.
    std::vector<v1::Peer> replicas;
    // Whether the state also goes to the store, if there is one.
    bool durable = false;
  };
  struct Options {
    // A copy is given up when nothing of it has moved for this long.
    absl::Duration idle = absl::Seconds(20);
    // Called after each copy with its size and whether it arrived, at the store
    // or at a worker. May be empty.
    std::function<void(bool to_store, int64_t bytes, bool ok)> on_copy;
    // Called when Troubles() has changed. May be empty.
    std::function<void()> on_troubles;
    // Called when a state has arrived in the store. May be empty.
    std::function<void(const std::string& job, const StateKey& key)> on_stored;
    // The callbacks among these are set by the copier, but for `on_listed`.
    StoreKeeper::Options store;
  };

  // `store` may be null. Pointers must outlive this; callbacks come from the
  // copier's thread and from the StoreKeeper's.
  CheckpointCopier(const Options& options, PeerClient* peers,
                   ArtifactStore* store);
  ~CheckpointCopier();

  void Add(Task task);
  // What keeps states from being copied, by the attempt that saved them.
  std::vector<v1::MemberTrouble> Troubles() const;
  // No job needs the state in the store any more: deletes it there.
  void Expire(const std::string& job, const StateKey& key);
  // Drops the job's waiting copies: the job no longer exists.
  void Forget(const std::string& job);
  // Waits until nothing is left to copy. Returns false if that takes longer
  // than `timeout`.
  bool Flush(absl::Duration timeout);

 private:
  void Loop();
  void Copy(const Task& task);
  void OnStoreTried(const StoreKeeper::Task& task, int64_t bytes,
                    const absl::Status& status);
  void ReportCopy(bool to_store, int64_t bytes, const absl::Status& status);
  void ReportTroubles(bool changed);

  const Options options_;
  PeerClient* const peers_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  CopyTroubles troubles_ ABSL_GUARDED_BY(mutex_);
  // The waiting tasks, by job.
  std::map<std::string, Task> copies_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  // Ends the copy under way.
  std::atomic<bool> abandoned_{false};
  // Declared last, because they start when everything else is in place.
  std::unique_ptr<StoreKeeper> keeper_;  // Null: no store.
  std::thread thread_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_CHECKPOINT_COPIER_H_
