#ifndef COMERA_WORKER_PREDICT_UNREAD_ANSWERS_H_
#define COMERA_WORKER_PREDICT_UNREAD_ANSWERS_H_

#include <cstdint>
#include <list>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "grpcpp/grpcpp.h"

namespace comera::worker {

// Answers on their way to clients, which may not read them. Where they hold too
// much memory together, the oldest calls are cancelled, which frees it.
//
// Thread-safe.
class UnreadAnswers {
 public:
  explicit UnreadAnswers(int64_t most_bytes) : most_bytes_(most_bytes) {}

  // An answer, from its sending to the end of its call.
  class Answer {
   public:
    // `context`, the call's, and `answers` must outlive it.
    Answer(UnreadAnswers* answers, grpc::ServerContextBase* context,
           int64_t bytes);
    ~Answer();

    Answer(const Answer&) = delete;
    Answer& operator=(const Answer&) = delete;

   private:
    friend class UnreadAnswers;

    UnreadAnswers* const answers_;
    grpc::ServerContextBase* const context_;
    const int64_t bytes_;
    bool cancelled_ = false;  // guarded by answers_->mutex_
    std::list<Answer*>::iterator place_;
  };

 private:
  const int64_t most_bytes_;
  std::mutex mutex_;
  // The oldest first.
  std::list<Answer*> all_ ABSL_GUARDED_BY(mutex_);
  // The sum over the answers whose calls have not been cancelled.
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_PREDICT_UNREAD_ANSWERS_H_
