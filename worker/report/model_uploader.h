#ifndef COMERA_WORKER_REPORT_MODEL_UPLOADER_H_
#define COMERA_WORKER_REPORT_MODEL_UPLOADER_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"

namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc

namespace comera::worker {

// Brings exported models to the coordinator, one after another on a thread of
// its own; tries again, with back-off, until a model is stored, refused for
// good, or abandoned. Thread-safe; destruction abandons all.
class ModelUploader {
 public:
  // Of a list of targets one each, in order; the end of the early stage, if the
  // job leaves it for others; then the job's own.
  using Models = std::vector<v1::Artifact>;

  // Called from the uploader's thread. Aborted, NotFound: the coordinator does
  // not want the model (the job's attempt is over). InvalidArgument,
  // FailedPrecondition: there is no model, or none that may be stored.
  using OnDone = std::function<void(const v1::MemberKey& rank,
                                    const absl::StatusOr<Models>&)>;

  struct Options {
    absl::Duration min_backoff = absl::Milliseconds(200);
    absl::Duration max_backoff = absl::Seconds(5);
    // For one file.
    absl::Duration timeout = absl::Minutes(5);
  };

  ModelUploader(const Options& options, std::shared_ptr<grpc::Channel> channel,
                OnDone on_done);
  ~ModelUploader();

  // `folder` holds the job's model, `targets_folder`, if it exists, one folder
  // target-N per target. Nothing else writes there any more.
  void Upload(const v1::MemberKey& rank, const std::string& folder,
              const std::string& targets_folder);
  // on_done is not called for it any more, or with any status.
  void Abandon(const v1::MemberKey& rank);

 private:
  struct Task {
    v1::MemberKey rank;
    std::string folder;
    std::string targets_folder;
  };

  void Loop();
  absl::StatusOr<Models> TryForever(const Task& task);
  absl::StatusOr<Models> TryOnce(const Task& task);
  absl::Status Send(const Task& task, const std::string& folder,
                    const v1::Artifact& artifact, const v1::ArtifactFile& file);

  const Options options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const OnDone on_done_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  // The front task, or all, are no longer wanted.
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ClientContext* call_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;  // Last: starts when all else is there.
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_REPORT_MODEL_UPLOADER_H_
