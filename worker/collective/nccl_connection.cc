// Makes NCCL calls, watches what they enqueued, and ends what hangs.
#include "worker/collective/nccl_connection.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/status_macros.h"
#include "worker/collective/nccl_status.h"

namespace comera::collective {
namespace {

constexpr char kIdKey[] = "nccl-id";
// Written by the first member that ends: "RANK COLLECTIVES HOW".
constexpr char kEndKey[] = "nccl-end";
constexpr absl::Duration kNoteInterval = absl::Milliseconds(20);
constexpr absl::Duration kWatchInterval = absl::Milliseconds(5);
constexpr absl::Duration kShortestPause = absl::Microseconds(10);
constexpr absl::Duration kLongestPause = absl::Milliseconds(1);
// Time before a communicator is aborted under a call that still uses it: longer
// than any call takes, unless the queue of a device that hangs is full.
constexpr auto kCallPatience = std::chrono::seconds(1);
// Time for a communicator without graphs to end.
constexpr auto kAbortPatience = std::chrono::milliseconds(500);
// Parts enqueued and not over; the host waits where there are more.
constexpr size_t kMaxParts = 64;

// Sleeps a little longer each time.
class Pause {
 public:
  void operator()() {
    absl::SleepFor(pause_);
    pause_ = std::min(pause_ * 2, kLongestPause);
  }

 private:
  absl::Duration pause_ = kShortestPause;
};

}  // namespace

absl::StatusOr<std::unique_ptr<NcclConnection>> NcclConnection::Connect(
    const NcclOptions& options, std::shared_ptr<Rendezvous> rendezvous) {
  std::unique_ptr<NcclConnection> connection(
      new NcclConnection(options, std::move(rendezvous)));
  const absl::Status formed = connection->Form();
  if (!formed.ok()) {
    connection->Fail(formed);
    return formed;
  }
  connection->watchdog_ = std::thread(&NcclConnection::Watch, connection.get());
  return connection;
}

absl::Status NcclConnection::Form() {
  const absl::Time deadline = absl::Now() + options_.connect_timeout;
  std::string id(NcclApi::kIdBytes, '\0');
  if (options_.rank == 0) {
    RETURN_IF_ERROR(NcclStatus(api_.GetUniqueId(id.data()), "ncclGetUniqueId",
                               api_.LastError(nullptr)));
    RETURN_IF_ERROR(rendezvous_->Set(kIdKey, id));
  } else {
    ASSIGN_OR_RETURN(id, rendezvous_->Get(kIdKey, options_.connect_timeout));
    if (id.size() != NcclApi::kIdBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rendezvous key \"", kIdKey, "\" holds ", id.size(),
          " bytes, not the ", NcclApi::kIdBytes, " of an NCCL id"));
    }
  }
  NcclApi::Comm comm = nullptr;
  const NcclResult result =
      api_.CommInitRank(&comm, options_.world_size, id.data(), options_.rank);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    comm_ = comm;
  }
  if (result != NcclResult::kInProgress) {
    RETURN_IF_ERROR(
        NcclStatus(result, "ncclCommInitRankConfig", api_.LastError(nullptr)));
  }
  return AwaitFormed(comm, deadline);
}

absl::Status NcclConnection::AwaitFormed(NcclApi::Comm comm,
                                         absl::Time deadline) {
  absl::Time next_note = absl::Now() + kNoteInterval;
  for (Pause pause;; pause()) {
    NcclResult state = NcclResult::kSuccess;
    RETURN_IF_ERROR(NcclStatus(api_.CommGetAsyncError(comm, &state),
                               "ncclCommGetAsyncError"));
    if (state != NcclResult::kInProgress) {
      return NcclStatus(state, "ncclCommInitRankConfig", api_.LastError(comm));
    }
    const absl::Time now = absl::Now();
    if (now >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          "NCCL did not connect ", options_.world_size, " ranks within ",
          absl::FormatDuration(options_.connect_timeout)));
    }
    if (now >= next_note) {
      next_note = now + kNoteInterval;
      RETURN_IF_ERROR(CheckEndNote(/*collective=*/1));
    }
  }
}

// Order: the watchdog ends first, because it uses what Leave frees; events are
// destroyed when nothing of the communicator is under way any more.
NcclConnection::~NcclConnection() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (watchdog_.joinable()) watchdog_.join();
  Leave();
  if (aborter_.joinable()) aborter_.join();
  for (NcclApi::Event event : events_) api_.DestroyEvent(event);
}

absl::Status NcclConnection::error() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return error_;
}

absl::Status NcclConnection::Refuse(absl::Status error) {
  Fail(std::move(error));
  return this->error();
}

absl::Status NcclConnection::Begin(int64_t count) {
  deadline_ = absl::Now() + options_.timeout;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (error_.ok()) started_ += count;
  return error_;
}

absl::Status NcclConnection::Call(
    const std::function<absl::Status(NcclApi::Comm)>& calls) {
  NcclApi::Comm comm = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!error_.ok()) return error_;
    comm = comm_;
    calling_ = true;
  }
  const absl::Status status = calls(comm);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    calling_ = false;
    changed_.notify_all();
    if (!error_.ok()) return error_;
  }
  return status;
}

absl::Status NcclConnection::Record(
    const std::function<absl::Status(NcclApi::Comm)>& calls) {
  deadline_ = absl::Now() + options_.timeout;
  const absl::Status status = Call(calls);
  return absl::IsDeadlineExceeded(status) ? Refuse(status) : status;
}

absl::StatusOr<int64_t> NcclConnection::Enqueue(
    const std::function<absl::Status(NcclApi::Comm)>& calls,
    NcclApi::Stream stream, bool last) {
  int64_t oldest = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (parts_.size() >= kMaxParts) oldest = parts_.front().ticket;
  }
  if (oldest > 0) RETURN_IF_ERROR(Wait(oldest));
  NcclApi::Event event = nullptr;
  const absl::Status called = Call([&](NcclApi::Comm comm) -> absl::Status {
    RETURN_IF_ERROR(calls(comm));
    ASSIGN_OR_RETURN(event, IdleEvent());
    return api_.RecordEvent(event, stream);
  });
  if (!called.ok()) return Refuse(called);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!error_.ok()) return error_;
  const int64_t ticket = next_ticket_++;
  parts_.push_back({ticket, started_, last, event, deadline_});
  changed_.notify_all();
  return ticket;
}

absl::StatusOr<NcclApi::Event> NcclConnection::IdleEvent() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_.empty()) {
      const NcclApi::Event event = idle_.back();
      idle_.pop_back();
      return event;
    }
  }
  ASSIGN_OR_RETURN(const NcclApi::Event event, api_.CreateEvent());
  events_.push_back(event);
  return event;
}

absl::Status NcclConnection::Wait(int64_t ticket) {
  for (Pause pause;; pause()) {
    Poll();
    std::unique_lock<std::mutex> lock(mutex_);
    // What was over before the error is over.
    if (finished_ticket_ >= ticket) return absl::OkStatus();
    if (error_.ok()) continue;
    // The other thread may have found the error: no member sums with this one
    // any more once its caller knows.
    changed_.wait_for(
        lock, kAbortPatience,
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !failing_; });
    return error_;
  }
}

absl::Status NcclConnection::AwaitAccepted(NcclApi::Comm comm,
                                           NcclResult result,
                                           const char* call) {
  for (Pause pause; result == NcclResult::kInProgress; pause()) {
    if (failed_ || aborted_) return absl::AbortedError("Abort was called");
    if (absl::Now() >= deadline_) {
      return absl::DeadlineExceededError(
          absl::StrCat(call, " was not taken within ",
                       absl::FormatDuration(options_.timeout)));
    }
    const NcclResult asked = api_.CommGetAsyncError(comm, &result);
    if (asked != NcclResult::kSuccess) result = asked;
  }
  return NcclStatus(result, call,
                    result == NcclResult::kSuccess ? "" : api_.LastError(comm));
}

void NcclConnection::Abort() {
  aborted_ = true;
  Poll();
}

void NcclConnection::Poll() {
  absl::Status status;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!error_.ok()) return;
    status = CheckProgress();
  }
  if (!status.ok()) Fail(status);
}

absl::Status NcclConnection::CheckProgress() {
  while (!parts_.empty()) {
    const Part& part = parts_.front();
    ASSIGN_OR_RETURN(const bool over, api_.EventDone(part.event));
    if (!over) break;
    finished_ticket_ = part.ticket;
    if (part.last) done_ = part.collective;
    idle_.push_back(part.event);
    parts_.pop_front();
  }
  if (aborted_) return absl::AbortedError("Abort was called");
  NcclResult state = NcclResult::kSuccess;
  RETURN_IF_ERROR(NcclStatus(api_.CommGetAsyncError(comm_, &state),
                             "ncclCommGetAsyncError"));
  // A call that is being made has its own wait, AwaitAccepted.
  if (state != NcclResult::kInProgress) {
    RETURN_IF_ERROR(NcclStatus(state, "NCCL", api_.LastError(comm_)));
  }
  if (parts_.empty()) return absl::OkStatus();
  const Part& part = parts_.front();
  const absl::Time now = absl::Now();
  if (now >= next_note_) {
    next_note_ = now + kNoteInterval;
    RETURN_IF_ERROR(CheckEndNote(part.collective));
  }
  if (now < part.deadline) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("collective ", part.collective, " was not over within ",
                   absl::FormatDuration(options_.timeout)));
}

absl::Status NcclConnection::CheckEndNote(int64_t collective) {
  const absl::StatusOr<std::string> note =
      rendezvous_->Get(kEndKey, absl::ZeroDuration());
  if (!note.ok()) return absl::OkStatus();
  const std::pair<std::string, std::string> head =
      absl::StrSplit(*note, absl::MaxSplits(' ', 1));
  const std::pair<std::string, std::string> tail =
      absl::StrSplit(head.second, absl::MaxSplits(' ', 1));
  int rank = 0;
  int64_t done = 0;
  if (!absl::SimpleAtoi(head.first, &rank) ||
      !absl::SimpleAtoi(tail.first, &done)) {
    return absl::UnavailableError(
        "another rank ended and left an unreadable note");
  }
  // It had its part in this one.
  if (rank == options_.rank || done >= collective) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("rank ", rank, " ", tail.second,
                                             " after ", done, " collectives"));
}

void NcclConnection::Announce(absl::string_view how) {
  if (options_.world_size == 1) return;
  // Another member's note serves as well, and without any the time-out remains.
  rendezvous_
      ->Set(kEndKey, absl::StrCat(options_.rank, " ", done_.load(), " ",
                                  how.substr(0, 1000)))
      .IgnoreError();
}

void NcclConnection::Fail(absl::Status error) {
  NcclApi::Comm comm = nullptr;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!error_.ok()) return;
    error_ = std::move(error);
    failed_ = failing_ = true;
    comm = std::exchange(comm_, nullptr);
    aborting_ = comm != nullptr;
    changed_.notify_all();
    changed_.wait_for(
        lock, kCallPatience,
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !calling_; });
    error = error_;
  }
  Announce(absl::IsAborted(error)
               ? "aborted"
               : absl::StrCat("failed (", error.message(), ")"));
  // On a thread of its own: it returns only when all graphs that hold
  // collectives of this communicator are destroyed, which the caller, or the
  // thread that waits for the caller, has yet to do. It may also last where
  // members of this machine go on.
  if (comm != nullptr) {
    aborter_ = std::thread([this, comm] {
      api_.CommAbort(comm);
      const std::lock_guard<std::mutex> lock(mutex_);
      aborting_ = false;
      changed_.notify_all();
    });
  }
  // So that as a rule the device has let go when this returns.
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(
      lock, kAbortPatience,
      [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !aborting_; });
  failing_ = false;
  changed_.notify_all();
}

void NcclConnection::Leave() {
  NcclApi::Comm comm = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    comm = std::exchange(comm_, nullptr);
  }
  if (comm == nullptr) return;
  Announce("left");
  const absl::Time deadline = absl::Now() + options_.leave_timeout;
  NcclResult state = api_.CommFinalize(comm);
  if (state == NcclResult::kSuccess) state = NcclResult::kInProgress;
  for (Pause pause; state == NcclResult::kInProgress; pause()) {
    if (api_.CommGetAsyncError(comm, &state) != NcclResult::kSuccess) break;
    if (state == NcclResult::kInProgress && absl::Now() >= deadline) break;
  }
  if (state == NcclResult::kSuccess) {
    api_.CommDestroy(comm);
  } else {
    api_.CommAbort(comm);
  }
}

void NcclConnection::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ending_) {
    if (parts_.empty() || !error_.ok()) {
      changed_.wait(lock);
      continue;
    }
    lock.unlock();
    Poll();
    lock.lock();
    changed_.wait_for(
        lock, absl::ToChronoNanoseconds(kWatchInterval),
        [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ending_; });
  }
}

}  // namespace comera::collective
