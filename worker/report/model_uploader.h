#ifndef COMERA_WORKER_REPORT_MODEL_UPLOADER_H_
#define COMERA_WORKER_REPORT_MODEL_UPLOADER_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "common/backoff.h"
#include "worker/files/open_folder.h"
#include "worker/files/path_below.h"

namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc

namespace comera::worker {

// Uploads exported models to the coordinator, one after another on a thread of
// its own. Tries again, with back-off, until a model is stored or refused for
// good; meanwhile the others have their turns. Thread-safe; destruction
// abandons all.
class ModelUploader {
 public:
  // The models of a job in order: one per target of a list; the end of the
  // early stage, if other jobs start from it; the job's own. Of a job that was
  // told to end before, only the best model so far.
  using Models = std::vector<v1::Artifact>;

  // Called on the uploader's thread. Aborted, NotFound: the coordinator does
  // not want the model, because the attempt is over, or the last try failed.
  // InvalidArgument, FailedPrecondition: there is no model, or none that may be
  // stored. ResourceExhausted: for all of `full_patience` there was no room.
  using OnDone = std::function<void(const v1::MemberKey& rank,
                                    const absl::StatusOr<Models>&)>;

  struct Options {
    absl::Duration min_backoff = absl::Milliseconds(200);
    absl::Duration max_backoff = absl::Seconds(5);
    // The limit for one file: this, and the time that its bytes need at the
    // slowest rate that is waited for.
    absl::Duration timeout = absl::Minutes(5);
    int64_t min_bytes_per_second = 128 << 10;
    // A model that finds no room is sent again for so long. Its job keeps its
    // slot meanwhile.
    absl::Duration full_patience = absl::Hours(8);
  };

  ModelUploader(const Options& options, std::shared_ptr<grpc::Channel> channel,
                OnDone on_done);
  ~ModelUploader();

  // `folder` holds the job's model; `targets_folder`, if it exists, has a
  // folder target-N per target. Nothing else may write to them any more, and
  // what a member left there in place of a folder or a file is not followed.
  void Upload(const v1::MemberKey& rank, const PathBelow& folder,
              const PathBelow& targets_folder);
  // Makes the try under way, or the one to come, the upload's last.
  void StopRetrying(const v1::MemberKey& rank);

 private:
  struct Task {
    v1::MemberKey rank;
    PathBelow folder;
    PathBelow targets_folder;
    Backoff backoff;
    bool retry = true;
    // When its turn comes, by SteadyNow. New ones come first.
    absl::Time next_try = absl::InfinitePast();
    // How the last try failed; OK before the first.
    absl::Status failed = absl::OkStatus();
    // Since when every try found no room.
    absl::Time full_since = absl::InfiniteFuture();
  };

  void Loop();
  absl::StatusOr<Models> TryOnce(const Task& task);
  // Notes how a try that began at `begin` failed. Returns the upload's end, OK
  // if there is to be another try.
  absl::Status Judge(const absl::Status& failed, absl::Time begin, Task* task)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Send(const Task& task, const OpenFolder& folder,
                    const v1::Artifact& artifact, const v1::ArtifactFile& file);

  const Options options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const OnDone on_done_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Only the thread removes any, so that it may read what it works on.
  std::list<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ClientContext* call_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // Declared last, because it starts when everything else is in place.
  std::thread thread_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_REPORT_MODEL_UPLOADER_H_
