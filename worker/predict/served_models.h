#ifndef COMERA_WORKER_PREDICT_SERVED_MODELS_H_
#define COMERA_WORKER_PREDICT_SERVED_MODELS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/predict_service.pb.h"
#include "worker/gang/member_user.h"
#include "worker/predict/model_child.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace comera::worker {

// Models of the coordinator's store that answer here: each has a comera-trainer
// of its own, started when it is first asked and ended when nobody asks any
// more, or to make room for another. One that dies is started again.
//
// Who asks is known by a token, which the coordinator judges: who may see the
// model there may use it here. A good answer holds for a while.
//
// Thread-safe. A call takes no longer than its deadline.
class ServedModels {
 public:
  struct Options {
    std::string trainer;
    // Files of models; emptied at the start.
    std::string folder;
    // KEY=VALUE of the children, among them the mark by which the daemon knows
    // what is its own.
    std::vector<std::string> environment;
    // Whom they run as; unset: this process's user.
    std::optional<MemberUser> user;
    // At once.
    int most_models = 2;
    // Calls that run or wait, of all models.
    int most_calls = 32;
    // Of one model: its files, and its process's memory.
    int64_t max_file_bytes = int64_t{4} << 30;
    int64_t max_memory_bytes = int64_t{8} << 30;
    int threads = 1;
    // Where measured numbers of this machine are kept; empty: nowhere.
    std::string cache_dir;
    absl::Duration idle = absl::Minutes(10);
    absl::Duration allowed_for = absl::Seconds(30);
    absl::Duration load_timeout = absl::Minutes(2);
    // For how long an answer may be computed whose caller has given up; then
    // the process counts as stuck.
    absl::Duration most_late = absl::Minutes(1);
  };

  // `channel`: to the coordinator, without any token. Unavailable: the folder.
  static absl::StatusOr<std::unique_ptr<ServedModels>> Create(
      const Options& options, std::shared_ptr<grpc::Channel> channel);
  // No call may be running.
  ~ServedModels();

  // Ends running calls, and later ones at once, with Unavailable.
  void Stop() { stopping_ = true; }

  // Errors of predict_service.proto.
  absl::StatusOr<v1::ServedModel> Load(const std::string& name,
                                       const std::string& token,
                                       absl::Time deadline);
  absl::StatusOr<v1::PredictResponse> Predict(const v1::PredictRequest& request,
                                              const std::string& token,
                                              absl::Time deadline);

 private:
  struct Entry;
  struct Allowed {
    v1::Artifact model;
    absl::Time until;
  };

  ServedModels(const Options& options, std::shared_ptr<grpc::Channel> channel);

  absl::StatusOr<v1::Artifact> Allow(const std::string& name,
                                     const std::string& token,
                                     absl::Time deadline);
  // Counts a call, and makes room for its model.
  absl::StatusOr<std::shared_ptr<Entry>> FindOrAdd(const std::string& name);
  void Return(const std::shared_ptr<Entry>& entry);
  absl::Status MakeReady(const v1::Artifact& model, const std::string& token,
                         absl::Time deadline, Entry* entry);
  // What `use` gives for the entry, which is ready and this call's alone.
  absl::Status WithModel(const std::string& name, const std::string& token,
                         absl::Time deadline,
                         const std::function<absl::Status(Entry*)>& use);
  // Runs `start` on the thread whose end would kill what it starts.
  void RunOnKeeper(const std::function<void()>& start);
  void Keep();
  void DropIdle();

  const Options options_;
  const std::shared_ptr<grpc::Channel> channel_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<Entry>> entries_
      ABSL_GUARDED_BY(mutex_);
  // By hash of token, and name.
  std::map<std::string, Allowed> allowed_ ABSL_GUARDED_BY(mutex_);
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int asking_ ABSL_GUARDED_BY(mutex_) = 0;    // the coordinator
  int64_t made_ ABSL_GUARDED_BY(mutex_) = 0;  // entries, ever
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread keeper_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_PREDICT_SERVED_MODELS_H_
