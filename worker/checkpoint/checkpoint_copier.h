#ifndef COMERA_WORKER_CHECKPOINT_CHECKPOINT_COPIER_H_
#define COMERA_WORKER_CHECKPOINT_CHECKPOINT_COPIER_H_

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "worker/checkpoint/checkpoint_names.h"
#include "worker/checkpoint/peer_client.h"
#include "worker/report/artifact_store.h"

namespace comera::worker {

// The folder of the store that holds a job's checkpoints; `job` is `jobs/<id>`.
std::string StoredCheckpointsFolder(const std::string& job);

// Copies training states that were saved on this machine to other workers'
// memory and to the store, in the background. Only the newest state of a job
// waits for its turn, because an older one helps nobody; but a snapshot never
// displaces a checkpoint that is not in the store yet.
//
// Runs a thread of its own from construction to destruction. Thread-safe.
class CheckpointCopier {
 public:
  struct Task {
    std::string job;
    CheckpointName name;
    std::string path;  // the saved file on this machine
    // Addresses of the workers that get a copy.
    std::vector<std::string> replicas;
    // Whether the state also goes to the store, if there is one, which keeps
    // the newest `keep` checkpoints of the job.
    bool durable = false;
    int keep = 2;
  };
  struct Options {
    absl::Duration timeout = absl::Seconds(20);
    // Called on the copier's thread after each copy with its size and whether
    // it arrived, at the store or at a worker. May be empty.
    std::function<void(bool to_store, int64_t bytes, bool ok)> on_copy;
  };
  // Called when a task's checkpoint has arrived in the store.
  using OnDurable = std::function<void(const Task&)>;

  // `store` may be null. Pointers must outlive this; `on_durable` is called on
  // the thread.
  CheckpointCopier(const Options& options, PeerClient* peers,
                   ArtifactStore* store, OnDurable on_durable);
  ~CheckpointCopier();

  void Add(Task task);
  // Drops the job's waiting copies: the job no longer exists.
  void Forget(const std::string& job);
  // Waits until nothing is left to copy. Returns false if that takes longer
  // than `timeout`.
  bool Flush(absl::Duration timeout);

 private:
  void Loop();
  void Copy(const Task& task);
  void ReportCopy(bool to_store, size_t bytes, const absl::Status& status);

  const Options options_;
  PeerClient* const peers_;
  ArtifactStore* const store_;
  const OnDurable on_durable_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // The waiting tasks, by job: those that end in the store, and all others.
  std::map<std::string, Task> durable_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Task> copies_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  // Declared last, because it starts when everything else is in place.
  std::thread thread_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_CHECKPOINT_COPIER_H_
