// Counts the transfers between workers, and cancels those that stand still.

#include "worker/checkpoint/peer_transfers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/checkpoint/byte_text.h"

namespace comera::worker {

PeerTransfers::Transfer::Transfer(PeerTransfers* owner, std::string job,
                                  bool receives, std::function<void()> cancel)
    : owner_(owner),
      job_(std::move(job)),
      receives_(receives),
      cancel_(std::move(cancel)),
      moved_(owner->options_.now()) {}

PeerTransfers::Transfer::~Transfer() {
  const std::lock_guard<std::mutex> lock(owner_->mutex_);
  owner_->bytes_ -= bytes_;
  owner_->transfers_.erase(this);
}

absl::Status PeerTransfers::Transfer::Move(size_t bytes) {
  const std::lock_guard<std::mutex> lock(owner_->mutex_);
  if (!status_.ok()) return status_;
  const size_t most = owner_->options_.max_bytes;
  if (bytes > most - std::min(most, owner_->bytes_)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the states that other workers are sending hold ",
                     BytesText(static_cast<int64_t>(owner_->bytes_)), " of ",
                     BytesText(static_cast<int64_t>(most))));
  }
  bytes_ += bytes;
  owner_->bytes_ += bytes;
  moved_ = owner_->options_.now();
  return absl::OkStatus();
}

PeerTransfers::PeerTransfers(Options options) : options_(std::move(options)) {
  if (options_.interval != absl::InfiniteDuration()) {
    thread_ = std::thread([this] { Loop(); });
  }
}

PeerTransfers::~PeerTransfers() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
    ending_changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

std::unique_ptr<PeerTransfers::Transfer> PeerTransfers::BeginReceive(
    const std::string& job, std::function<void()> cancel) {
  std::unique_ptr<Transfer> transfer(
      new Transfer(this, job, /*receives=*/true, std::move(cancel)));
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Transfer* other : transfers_) {
    if (!other->receives_ || other->job_ != job) continue;
    Cancel(*other, absl::AbortedError(
                       absl::StrCat("another state of ", job, " comes")));
  }
  transfers_.insert(transfer.get());
  return transfer;
}

absl::StatusOr<std::unique_ptr<PeerTransfers::Transfer>>
PeerTransfers::BeginRead(const std::string& job, std::function<void()> cancel) {
  std::unique_ptr<Transfer> transfer(
      new Transfer(this, job, /*receives=*/false, std::move(cancel)));
  int reads = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Transfer* other : transfers_) {
      if (!other->receives_ && other->job_ == job) ++reads;
    }
    if (reads < options_.max_reads) {
      transfers_.insert(transfer.get());
      return transfer;
    }
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(reads, " states of ", job, " are being read here"));
}

void PeerTransfers::Cancel(Transfer& transfer, absl::Status why) {
  if (!transfer.status_.ok()) return;
  transfer.status_ = std::move(why);
  transfer.cancel_();
}

void PeerTransfers::CancelIdle() {
  const absl::Time now = options_.now();
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Transfer* transfer : transfers_) {
    if (now - transfer->moved_ < options_.idle) continue;
    Cancel(*transfer,
           absl::DeadlineExceededError(absl::StrCat(
               "nothing has moved for ", absl::FormatDuration(options_.idle))));
  }
}

void PeerTransfers::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ending_changed_.wait_for(
      lock, absl::ToChronoMilliseconds(options_.interval),
      [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ending_; })) {
    lock.unlock();
    CancelIdle();
    lock.lock();
  }
}

}  // namespace comera::worker
