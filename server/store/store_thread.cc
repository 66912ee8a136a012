// Commits what waits for the store in groups, on a thread of its own.
#include "server/store/store_thread.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

#include "absl/time/clock.h"

namespace comera::server {
namespace {

template <typename T>
void Append(std::vector<T> from, std::vector<T>* to) {
  std::move(from.begin(), from.end(), std::back_inserter(*to));
}

// Appends the last record of each job, which is all that the store would keep.
template <typename Requests>
void AppendRecords(Requests* group, std::vector<JobRecord>* records) {
  std::unordered_set<std::string> seen;
  for (auto request = group->rbegin(); request != group->rend(); ++request) {
    std::vector<JobRecord>& some = request->batch.records;
    for (auto record = some.rbegin(); record != some.rend(); ++record) {
      if (!seen.insert(record->job().name()).second) continue;
      records->push_back(std::move(*record));
    }
  }
  std::reverse(records->begin(), records->end());
}

}  // namespace

StoreThread::StoreThread(JobStore* store, Done on_failure, OnCommit on_commit,
                         OnFull on_full)
    : store_(store),
      on_failure_(std::move(on_failure)),
      on_commit_(std::move(on_commit)),
      on_full_(std::move(on_full)) {
  thread_ = std::thread([this] { Loop(); });
}

StoreThread::~StoreThread() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void StoreThread::Retry() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (room_ == Room::kNothingNew) room_ = Room::kRetry;
  }
  wake_.notify_one();
}

void StoreThread::RetryOrFail() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    room_ = Room::kRetryOrFail;
  }
  wake_.notify_one();
}

void StoreThread::Write(StoreBatch batch, Done done) {
  Request request;
  request.batch = std::move(batch);
  request.done = std::move(done);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(request));
  }
  wake_.notify_one();
}

void StoreThread::Read(std::function<void(JobStore*)> read) {
  Request request;
  request.read = [this, read = std::move(read)] { read(store_); };
  {
    std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(request));
  }
  wake_.notify_one();
}

void StoreThread::ReadEvents(std::string job, int64_t after, int64_t last,
                             int limit, EventsDone done) {
  Read([job = std::move(job), after, last, limit,
        done = std::move(done)](JobStore* store) {
    done(store->ReadEvents(job, after, last, limit));
  });
}

bool StoreThread::CommitBatch(const StoreBatch& batch, size_t writes) {
  if (!failure_.ok()) return true;
  const absl::Time begin = absl::Now();
  absl::Status status = store_->Commit(batch);
  while (on_full_ && absl::IsResourceExhausted(status) && on_full_(status)) {
    status = store_->Commit(batch);
  }
  if (on_full_ && !never_wait_ && absl::IsResourceExhausted(status)) {
    return false;
  }
  // One without content costs nothing, and tells nothing.
  if (on_commit_ && !batch.empty()) {
    on_commit_(absl::Now() - begin, writes, status.ok());
  }
  if (status.ok()) return true;
  failure_ = status;
  on_failure_(failure_);
  return true;
}

void StoreThread::CommitGroup(std::vector<Request> group) {
  if (group.empty()) return;
  if (stalled_) return Append(std::move(group), &stalled_->later);
  StoreBatch all;
  for (Request& request : group) {
    Append(std::move(request.batch.events), &all.events);
    Append(std::move(request.batch.deleted_jobs), &all.deleted_jobs);
    Append(std::move(request.batch.documents), &all.documents);
    Append(std::move(request.batch.audit), &all.audit);
  }
  AppendRecords(&group, &all.records);
  const bool done = CommitBatch(all, group.size());
  if (done) {
    for (Request& request : group) request.done(failure_);
    return;
  }
  stalled_.emplace();
  stalled_->batch = std::move(all);
  for (Request& request : group) {
    stalled_->dones.push_back(std::move(request.done));
  }
}

void StoreThread::RetryStalled() {
  if (!stalled_) return;
  if (!CommitBatch(stalled_->batch, stalled_->dones.size())) return;
  Stalled ended = *std::move(stalled_);
  stalled_.reset();
  for (const Done& done : ended.dones) done(failure_);
  CommitGroup(std::move(ended.later));
}

void StoreThread::Loop() {
  while (true) {
    std::deque<Request> batch;
    Room room = Room::kNothingNew;
    bool stopping = false;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !queue_.empty() || room_ != Room::kNothingNew;
      });
      batch.swap(queue_);
      std::swap(room, room_);
      stopping = stopping_;
    }
    if (room == Room::kRetryOrFail) never_wait_ = true;
    if (room != Room::kNothingNew) RetryStalled();
    std::vector<Request> group;
    for (Request& request : batch) {
      if (request.read == nullptr) {
        group.push_back(std::move(request));
        continue;
      }
      CommitGroup(std::move(group));
      group.clear();
      request.read();
    }
    CommitGroup(std::move(group));
    if (stopping && batch.empty()) {
      never_wait_ = true;
      return RetryStalled();
    }
  }
}

}  // namespace comera::server
