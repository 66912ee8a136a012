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

// Where a job's durable checkpoints lie in the store; `job` is `jobs/<id>`.
std::string StoredCheckpointsFolder(const std::string& job);

// Copies training states that were saved here to other workers' memory and to
// the store, off the path of everything else: of each job only the newest one
// waits, for a state that is old when its turn comes helps nobody; but a
// checkpoint is not replaced by a snapshot before it is durable.
//
// A thread of its own, from construction to destruction. Thread-safe.
class CheckpointCopier {
 public:
  struct Task {
    std::string job;
    CheckpointName name;
    // The file.
    std::string path;
    // Addresses of other workers.
    std::vector<std::string> replicas;
    // To the store, if there is one, where so many of the job are kept.
    bool durable = false;
    int keep = 2;
  };
  struct Options {
    absl::Duration timeout = absl::Seconds(20);
    // A copy's size and whether it arrived, in the store or at a worker; on the
    // thread. Empty: nobody wants to know.
    std::function<void(bool to_store, int64_t bytes, bool ok)> on_copy;
  };
  // The checkpoint lies in the store.
  using OnDurable = std::function<void(const Task&)>;

  // `store` may be null. Pointers must outlive this; `on_durable` is called on
  // the thread.
  CheckpointCopier(const Options& options, PeerClient* peers,
                   ArtifactStore* store, OnDurable on_durable);
  ~CheckpointCopier();

  void Add(Task task);
  // The job is no more.
  void Forget(const std::string& job);
  // Waits until nothing waits to be copied. False: not within `timeout`.
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
  // By job: what is to be durable, and what is to be copied.
  std::map<std::string, Task> durable_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Task> copies_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: starts when all else is there
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_CHECKPOINT_COPIER_H_
