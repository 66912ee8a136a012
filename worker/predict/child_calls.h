#ifndef COMERA_WORKER_PREDICT_CHILD_CALLS_H_
#define COMERA_WORKER_PREDICT_CHILD_CALLS_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comera/v1/predict_service.pb.h"
#include "worker/predict/model_child.h"

namespace comera::worker {

// Calls to one model's process that run at the same time: each request has a
// number, and the answers' numbers tell whose they are.
//
// One prediction at a time is with the process, and so many texts; the others
// wait, each kind in the order of the calls. The process shares its steps
// between the prediction and the texts.
//
// Once the process has ended, all calls end with status(), and the object is of
// no more use. Thread-safe.
class ChildCalls {
 public:
  // `child` has told what it serves.
  ChildCalls(std::unique_ptr<ModelChild> child, int max_generations);
  // Ends the process. No call may be running.
  ~ChildCalls();

  // `gone`, asked a few times a second, says whether the caller has left; it
  // may be null. DeadlineExceeded, or Cancelled once the caller has left: the
  // answer is dropped when it comes. InvalidArgument: the process refuses the
  // request.
  absl::StatusOr<v1::PredictResponse> Predict(
      const v1::PredictRequest& request, absl::Time deadline,
      const std::function<bool()>& gone);
  // Passes the text to `write`, piece by piece; the last piece has `finish`. A
  // slow `write` holds up nobody else. `gone` as above. The process is told to
  // stop when the caller has left, when `write` returns false (both Cancelled),
  // and at the deadline (DeadlineExceeded). InvalidArgument: the process
  // refuses the request. FailedPrecondition: the model generates no texts.
  absl::Status Generate(
      const v1::GenerateRequest& request, absl::Time deadline,
      const std::function<bool()>& gone,
      const std::function<bool(const v1::GenerateResponse&)>& write);

  // OK while the process answers. FailedPrecondition: it has ended; the message
  // is its last output. Cancelled: the worker ends. Otherwise End's status.
  absl::Status status() const;
  // The time, at `now`, for which the process has said nothing while it owed
  // the end of a text that it was told to stop, or of a prediction whose
  // deadline had passed; 0 if it owes none. A prediction explains any silence
  // before: it is computed in one go, also when its caller leaves early.
  absl::Duration silence(absl::Time now) const;
  // Ends the process and all calls with this status, unless it has ended.
  void End(const absl::Status& status);

 private:
  // The calls of one kind: how many are with the process, and which wait.
  struct Lane {
    int limit = 1;
    int running = 0;
    std::deque<int64_t> waiting;
  };
  struct Call {
    Lane* lane = nullptr;
    // The request is with the process.
    bool sent = false;
    absl::Time deadline;
    // The caller has left, and the process cannot be told to stop.
    bool given_up = false;
    bool answered = false;
    // The process's refusal.
    absl::Status refusal;
    // The answer to a prediction, or what ends a text.
    v1::PredictResponse response;
    // What has been generated and not been passed on.
    std::string text;
  };

  // Waits until a call may be with the process, and returns its number.
  absl::StatusOr<int64_t> ClaimTurn(Lane* lane, absl::Time deadline,
                                    const std::function<bool()>& gone);
  // Has the request written, once its call has its turn.
  void Send(int64_t number, v1::PredictRequest request);
  void GiveUp(int64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns once `ready`, which is asked with the lock held. The analysis does
  // not follow a lock behind a pointer.
  absl::Status Await(std::unique_lock<std::mutex>* lock, absl::Time deadline,
                     const std::function<bool()>& gone,
                     const std::function<bool()>& ready)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void EndLocked(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Hands an answer to its call.
  absl::Status Deliver(v1::PredictResponse response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Free(Lane* lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The threads' bodies.
  void Write();
  void Read();

  const std::unique_ptr<ModelChild> child_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  Lane predictions_ ABSL_GUARDED_BY(mutex_);
  Lane texts_ ABSL_GUARDED_BY(mutex_);
  int64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  // The calls that wait for an answer or have not taken theirs.
  std::map<int64_t, Call> calls_ ABSL_GUARDED_BY(mutex_);
  // The requests to write, with the numbers of their calls; 0: none. They
  // become lines one by one, because a line may be several times as large.
  std::deque<std::pair<int64_t, v1::PredictRequest>> requests_
      ABSL_GUARDED_BY(mutex_);
  // The texts that the process was told to stop and has not ended yet, with the
  // times at which their callers gave up.
  std::map<int64_t, absl::Time> cancelled_ ABSL_GUARDED_BY(mutex_);
  // When the process last said something.
  absl::Time heard_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  // Both end soon after the process.
  std::thread writer_, reader_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_PREDICT_CHILD_CALLS_H_
