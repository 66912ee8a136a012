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
#include "comera/v1/predict_service.pb.h"
#include "worker/gang/member_user.h"
#include "worker/predict/call_budget.h"
#include "worker/predict/child_calls.h"
#include "worker/predict/model_files.h"
#include "worker/predict/text_models.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace comera::worker {

// Serves models of the coordinator's store. Each model has a comera-trainer of
// its own, started at the first call and ended when calls cease, or to make
// room for another. One that dies is started again. Predictions and texts of
// one model are computed at the same time (child_calls.h).
//
// The coordinator judges a caller by its ticket: whoever may see the model
// there may use it here. Its permission is remembered for a while.
//
// Thread-safe. A call takes no longer than its deadline.
class ServedModels : public TextModels {
 public:
  struct Options {
    std::string trainer;
    // The folder of models' files; emptied at the start.
    std::string folder;
    // KEY=VALUE pairs for the children, among them the mark by which the daemon
    // recognises its own processes.
    std::vector<std::string> environment;
    // The user that they run as; unset means this process's user.
    std::optional<MemberUser> user;
    // The number of models that may be loaded at once.
    int most_models = 2;
    // The number of calls that may run or wait, over all models, texts
    // included, and the memory that their requests may take. As much again may
    // wait for the coordinator's permission. While a request is handed to a
    // process, it is there twice.
    int most_calls = 32;
    int64_t most_request_bytes = int64_t{64} << 20;
    // The limits of one model: of its files, and of its process's memory.
    int64_t max_file_bytes = int64_t{4} << 30;
    int64_t max_memory_bytes = int64_t{8} << 30;
    int threads = 1;
    // The folder that keeps measurements of this machine; empty for none.
    std::string cache_dir;
    // How long an unused model stays loaded.
    absl::Duration idle = absl::Minutes(10);
    // How long the coordinator's permission is remembered.
    absl::Duration allowed_for = absl::Seconds(30);
    // How long fetching a model's files may take, and then starting its
    // process.
    absl::Duration fetch_timeout = absl::Hours(1);
    absl::Duration load_timeout = absl::Minutes(2);
    // How long a prediction may still be computed after its deadline, and a
    // text after its caller has given up; then the process counts as stuck if
    // it says nothing, and is ended.
    absl::Duration most_late = absl::Minutes(1);
    // How often idle and stuck models are looked for.
    absl::Duration look_interval = absl::Seconds(5);
  };

  // Unavailable: the folder cannot be used.
  static absl::StatusOr<std::unique_ptr<ServedModels>> Create(
      const Options& options, const CoordinatorChannels& channels);
  // No call may be running. Ends what loads.
  ~ServedModels() override;

  // Ends running calls, and later ones at once, with Unavailable.
  void Stop() { stopping_ = true; }

  // `gone`, asked a few times a second, says whether the caller has left; the
  // call ends then, with Cancelled. Other errors are those of
  // predict_service.proto.
  absl::StatusOr<v1::ServedModel> Load(const std::string& name,
                                       const std::string& ticket,
                                       absl::Time deadline,
                                       const std::function<bool()>& gone);
  absl::StatusOr<v1::PredictResponse> Predict(
      const v1::PredictRequest& request, const std::string& ticket,
      absl::Time deadline, const std::function<bool()>& gone);
  absl::Status Generate(
      const v1::GenerateRequest& request, const std::string& ticket,
      absl::Time deadline, const std::function<bool()>& gone,
      const std::function<bool(const v1::GenerateResponse&)>& write) override;
  absl::StatusOr<std::vector<ListedModel>> List(
      const std::string& ticket, absl::Time deadline,
      const std::function<bool()>& gone) override;

 private:
  struct Entry;
  struct Loading;
  // A call: whose it is, and how long it is waited for.
  struct Caller {
    const std::string& ticket;
    const absl::Time deadline;
    const std::function<bool()>& gone;
  };

  ServedModels(const Options& options, const CoordinatorChannels& channels);

  absl::StatusOr<GrantedModel> Allow(const std::string& name, int64_t bytes,
                                     const Caller& caller);
  // Counts a user of the model's entry; evicts an idle model if there are too
  // many.
  absl::StatusOr<std::shared_ptr<Entry>> FindOrAdd(const std::string& name);
  void Return(const std::shared_ptr<Entry>& entry);
  // Begins to load the model, on a thread of the entry's own: its callers may
  // leave meanwhile.
  std::shared_ptr<Loading> Begin(const GrantedModel& granted, Entry* entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Fetches the model's files and starts its process.
  absl::Status Start(const GrantedModel& granted, const Entry& entry,
                     Loading* loading);
  absl::Status Await(const Loading& loading, const Caller& caller);
  // Waits until the model is ready, and loads it unless it is. `ran` tells
  // whether its process had been running.
  absl::StatusOr<std::shared_ptr<ChildCalls>> Prepare(
      const GrantedModel& granted, const Caller& caller, Entry* entry,
      v1::ServedModel* served, bool* ran);
  // Has the next call start another process in place of this one.
  void Discard(const std::shared_ptr<ChildCalls>& calls, Entry* entry);
  // Runs `use` on the model once it is ready, and again if the process dies and
  // `again` allows it. `bytes` are those of the request.
  absl::Status WithModel(
      const std::string& name, int64_t bytes, const Caller& caller,
      const std::function<absl::Status(const v1::ServedModel&, ChildCalls*)>&
          use,
      const std::function<bool()>& again = [] { return true; });
  // Runs `start` on a thread that lives as long as this object, because the
  // kernel kills a child when the thread that started it ends.
  void RunOnKeeper(const std::function<void()>& start);
  void Keep();
  void DropIdle();
  void EndStuck();

  const Options options_;
  const CoordinatorChannels channels_;
  std::atomic<bool> stopping_{false};
  // The calls that are permitted, and those that wait for the coordinator's
  // permission: a stranger takes no place of theirs.
  CallBudget calls_, asking_;
  // Taken before a ChildCalls' own.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<Entry>> entries_
      ABSL_GUARDED_BY(mutex_);
  // The permissions, by hash of ticket and model name.
  std::map<std::string, GrantedModel> allowed_ ABSL_GUARDED_BY(mutex_);
  // The number of entries ever made.
  int64_t made_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread keeper_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_PREDICT_SERVED_MODELS_H_
