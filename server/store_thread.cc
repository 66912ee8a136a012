#include "server/store_thread.h"

#include <utility>

namespace comera::server {

StoreThread::StoreThread(JobStore* store, Done on_failure)
    : store_(store), on_failure_(std::move(on_failure)) {
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

void StoreThread::ReadEvents(std::string job, int64_t after, int64_t last,
                             int limit, EventsDone done) {
  Request request;
  request.read = [this, job = std::move(job), after, last, limit,
                  done = std::move(done)] {
    done(store_->ReadEvents(job, after, last, limit));
  };
  {
    std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(request));
  }
  wake_.notify_one();
}

void StoreThread::CommitGroup(std::vector<Request> group) {
  if (group.empty()) return;
  StoreBatch all;
  for (Request& request : group) {
    std::move(request.batch.records.begin(), request.batch.records.end(),
              std::back_inserter(all.records));
    std::move(request.batch.events.begin(), request.batch.events.end(),
              std::back_inserter(all.events));
  }
  if (failure_.ok()) {
    failure_ = store_->Commit(all);
    if (!failure_.ok()) on_failure_(failure_);
  }
  for (Request& request : group) request.done(failure_);
}

void StoreThread::Loop() {
  while (true) {
    std::deque<Request> batch;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      batch.swap(queue_);
    }
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
  }
}

}  // namespace comera::server
