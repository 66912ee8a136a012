// Numbers requests to a model's process and hands its answers to their callers.

#include "worker/predict/child_calls.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/status_macros.h"
#include "google/protobuf/util/json_util.h"

namespace comera::worker {
namespace {

constexpr absl::Duration kLookInterval = absl::Milliseconds(100);
// The limit of a text that its caller has not taken yet.
constexpr size_t kMostText = size_t{64} << 20;

absl::StatusOr<std::string> LineOf(const v1::PredictRequest& request) {
  std::string line;
  const auto written =
      google::protobuf::util::MessageToJsonString(request, &line);
  if (!written.ok()) {
    return absl::InvalidArgumentError(std::string(written.message()));
  }
  line += '\n';
  return line;
}

}  // namespace

ChildCalls::ChildCalls(std::unique_ptr<ModelChild> child, int max_generations)
    : child_(std::move(child)) {
  texts_.limit = max_generations;
  writer_ = std::thread([this] { Write(); });
  reader_ = std::thread([this] { Read(); });
}

ChildCalls::~ChildCalls() {
  End(absl::UnavailableError("the model is no longer loaded: try again"));
  writer_.join();
  reader_.join();
}

absl::Status ChildCalls::status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

absl::Duration ChildCalls::silence(absl::Time now) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  absl::Time since = absl::InfiniteFuture();
  for (const auto& [number, when] : cancelled_) since = std::min(since, when);
  // The process ends no text while it computes a prediction, of which it has
  // one at most.
  for (const auto& [number, call] : calls_) {
    if (call.lane == &predictions_ && call.sent && !call.answered) {
      since = call.given_up ? call.deadline : absl::InfiniteFuture();
    }
  }
  return std::max(now - std::max(since, heard_), absl::ZeroDuration());
}

void ChildCalls::End(const absl::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  EndLocked(status);
}

void ChildCalls::EndLocked(const absl::Status& status) {
  if (!status_.ok()) return;
  status_ = status;
  child_->Kill();
  changed_.notify_all();
}

absl::Status ChildCalls::Await(std::unique_lock<std::mutex>* lock,
                               absl::Time deadline,
                               const std::function<bool()>& gone,
                               const std::function<bool()>& ready) {
  while (!ready()) {
    RETURN_IF_ERROR(status_);
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError("the model does not answer in time");
    }
    if (gone != nullptr) {
      lock->unlock();
      const bool has_gone = gone();
      lock->lock();
      if (has_gone) return absl::CancelledError("the caller has gone");
      if (ready()) break;
    }
    changed_.wait_for(*lock,
                      absl::ToChronoNanoseconds(std::min(left, kLookInterval)));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ChildCalls::ClaimTurn(
    Lane* lane, absl::Time deadline, const std::function<bool()>& gone) {
  std::unique_lock<std::mutex> lock(mutex_);
  const int64_t number = ++last_number_;
  lane->waiting.push_back(number);
  const absl::Status turn = Await(&lock, deadline, gone, [&] {
    return lane->waiting.front() == number && lane->running < lane->limit;
  });
  lane->waiting.erase(
      std::find(lane->waiting.begin(), lane->waiting.end(), number));
  changed_.notify_all();
  RETURN_IF_ERROR(turn);
  RETURN_IF_ERROR(status_);
  ++lane->running;
  Call& call = calls_[number];
  call.lane = lane;
  call.deadline = deadline;
  return number;
}

void ChildCalls::Send(int64_t number, v1::PredictRequest request) {
  request.set_number(number);
  const std::lock_guard<std::mutex> lock(mutex_);
  requests_.emplace_back(number, std::move(request));
  changed_.notify_all();
}

void ChildCalls::Free(Lane* lane) {
  --lane->running;
  changed_.notify_all();
}

void ChildCalls::GiveUp(int64_t number) {
  const auto found = calls_.find(number);
  Call& call = found->second;
  const auto request =
      std::find_if(requests_.begin(), requests_.end(),
                   [&](const auto& one) { return one.first == number; });
  if (request != requests_.end()) {
    requests_.erase(request);
  } else if (!call.answered && call.lane == &predictions_) {
    call.given_up = true;
    return;
  } else if (!call.answered) {
    v1::PredictRequest cancel;
    cancel.set_cancel(number);
    requests_.emplace_back(0, std::move(cancel));
    cancelled_[number] = absl::Now();
  }
  if (!call.answered) Free(call.lane);
  calls_.erase(found);
  changed_.notify_all();
}

absl::StatusOr<v1::PredictResponse> ChildCalls::Predict(
    const v1::PredictRequest& request, absl::Time deadline,
    const std::function<bool()>& gone) {
  ASSIGN_OR_RETURN(const int64_t number,
                   ClaimTurn(&predictions_, deadline, gone));
  Send(number, request);
  std::unique_lock<std::mutex> lock(mutex_);
  const absl::Status status =
      Await(&lock, deadline, gone, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return calls_[number].answered;
      });
  if (!status.ok()) {
    GiveUp(number);
    return status;
  }
  Call call = std::move(calls_[number]);
  calls_.erase(number);
  RETURN_IF_ERROR(call.refusal);
  call.response.clear_number();
  return std::move(call.response);
}

absl::Status ChildCalls::Generate(
    const v1::GenerateRequest& request, absl::Time deadline,
    const std::function<bool()>& gone,
    const std::function<bool(const v1::GenerateResponse&)>& write) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (texts_.limit <= 0) {
      return absl::FailedPreconditionError(
          "the model generates no text: only models of the family causal_lm "
          "do");
    }
  }
  ASSIGN_OR_RETURN(const int64_t number, ClaimTurn(&texts_, deadline, gone));
  v1::PredictRequest sent;
  *sent.mutable_generate() = request;
  Send(number, std::move(sent));
  std::unique_lock<std::mutex> lock(mutex_);
  Call& call = calls_[number];
  absl::Status status;
  bool ended = false;
  while (status.ok() && !ended) {
    status = Await(&lock, deadline, gone,
                   [&] { return call.answered || !call.text.empty(); });
    if (status.ok()) status = call.refusal;
    if (!status.ok()) break;
    v1::GenerateResponse piece;
    ended = call.answered;
    if (ended) piece.Swap(call.response.mutable_generated());
    piece.set_text(std::move(call.text));
    call.text.clear();
    lock.unlock();
    const bool written = write(piece);
    lock.lock();
    if (!written) status = absl::CancelledError("the caller has gone");
  }
  GiveUp(number);
  return status;
}

absl::Status ChildCalls::Deliver(v1::PredictResponse response) {
  const auto found = calls_.find(response.number());
  if (found == calls_.end()) {
    // An answer to nobody is one that was cancelled too late, or the end of a
    // text that was cancelled, unless it says that a request was not
    // understood.
    if (!response.error().empty() ||
        response.generated().finish() !=
            v1::GenerateResponse::FINISH_UNSPECIFIED) {
      cancelled_.erase(response.number());
    }
    if (response.number() != 0 || response.error().empty()) {
      return absl::OkStatus();
    }
    return absl::InternalError(
        absl::StrCat("comera-trainer: ", response.error()));
  }
  Call& call = found->second;
  if (call.answered) return absl::OkStatus();
  const bool generates = call.lane == &texts_;
  if (!response.error().empty()) {
    call.refusal = absl::InvalidArgumentError(response.error());
    call.answered = true;
  } else if (generates != response.has_generated()) {
    return absl::InternalError("comera-trainer answers another request");
  } else {
    call.text += response.generated().text();
    if (call.text.size() > kMostText) {
      return absl::ResourceExhaustedError("the model says too much");
    }
    call.answered = !generates || response.generated().finish() !=
                                      v1::GenerateResponse::FINISH_UNSPECIFIED;
    if (call.answered) call.response = std::move(response);
  }
  if (call.answered) Free(call.lane);
  if (call.given_up) calls_.erase(found);
  changed_.notify_all();
  return absl::OkStatus();
}

void ChildCalls::Write() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !status_.ok() || !requests_.empty();
    });
    if (!status_.ok()) return;
    auto [number, request] = std::move(requests_.front());
    requests_.pop_front();
    const auto sender = calls_.find(number);
    if (sender != calls_.end()) sender->second.sent = true;
    lock.unlock();
    // Writing a long request takes a while, in which others may go on.
    const absl::StatusOr<std::string> line =
        LineOf(std::exchange(request, v1::PredictRequest()));
    absl::Status sent;
    if (line.ok()) sent = child_->Send(*line, absl::InfiniteFuture());
    lock.lock();
    if (!line.ok()) {
      v1::PredictResponse refused;
      refused.set_number(number);
      refused.set_error(std::string(line.status().message()));
      sent = Deliver(std::move(refused));
    }
    if (!sent.ok()) EndLocked(sent);
  }
}

void ChildCalls::Read() {
  google::protobuf::util::JsonParseOptions lenient;
  // A newer program may send more fields.
  lenient.ignore_unknown_fields = true;
  while (true) {
    const absl::StatusOr<std::string> line =
        child_->Receive(absl::InfiniteFuture());
    v1::PredictResponse response;
    const bool understood =
        line.ok() &&
        google::protobuf::util::JsonStringToMessage(*line, &response, lenient)
            .ok();
    const std::lock_guard<std::mutex> lock(mutex_);
    heard_ = absl::Now();
    if (!line.ok()) {
      EndLocked(line.status());
    } else if (!understood) {
      EndLocked(absl::InternalError("comera-trainer gives no answer"));
    } else if (const absl::Status status = Deliver(std::move(response));
               !status.ok()) {
      EndLocked(status);
    }
    if (!status_.ok()) return;
  }
}

}  // namespace comera::worker
