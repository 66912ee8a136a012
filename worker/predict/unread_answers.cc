// Cancels the oldest calls whose answers are not read.

#include "worker/predict/unread_answers.h"

namespace comera::worker {

UnreadAnswers::Answer::Answer(UnreadAnswers* answers,
                              grpc::ServerContextBase* context, int64_t bytes)
    : answers_(answers), context_(context), bytes_(bytes) {
  const std::lock_guard<std::mutex> lock(answers_->mutex_);
  answers_->bytes_ += bytes_;
  for (Answer* oldest : answers_->all_) {
    if (answers_->bytes_ <= answers_->most_bytes_) break;
    if (oldest->cancelled_) continue;
    oldest->cancelled_ = true;
    answers_->bytes_ -= oldest->bytes_;
    // The end of that call, which waits for the lock, is told on another
    // thread.
    oldest->context_->TryCancel();
  }
  place_ = answers_->all_.insert(answers_->all_.end(), this);
}

UnreadAnswers::Answer::~Answer() {
  const std::lock_guard<std::mutex> lock(answers_->mutex_);
  if (!cancelled_) answers_->bytes_ -= bytes_;
  answers_->all_.erase(place_);
}

}  // namespace comera::worker
