// Reads WatchJob streams through reactors and measures how late events arrive.

#include "tests/bench/service/watch_load.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/time/clock.h"
#include "comera/v1/training_service.grpc.pb.h"
#include "common/grpc_status.h"

namespace comera::bench {

struct WatchLoad::Shared {
  std::function<absl::Time(int64_t)> due;
  std::vector<std::unique_ptr<v1::TrainingService::Stub>> stubs;
  std::atomic<int> open{0};
  std::atomic<int> ended{0};
  std::atomic<bool> measuring{false};
  std::atomic<int64_t> events{0}, dropped{0};
  Latencies latencies;
  std::mutex mutex;
  std::condition_variable all_ended;
  absl::Status first_error;  // guarded by mutex
};

class WatchLoad::Stream : public grpc::ClientReadReactor<v1::WatchJobResponse> {
 public:
  Stream(std::shared_ptr<Shared> shared, v1::TrainingService::Stub* stub,
         const std::string& job)
      : shared_(std::move(shared)) {
    request_.set_name(job);
    stub->async()->WatchJob(&context_, &request_, this);
    StartRead(&response_);
    StartCall();
  }

  void Cancel() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (response_.has_job()) ++shared_->open;
    const v1::JobEvent& event = response_.event();
    if (event.has_metrics() && shared_->measuring) {
      shared_->latencies.Add(absl::Now() -
                             shared_->due(event.metrics().step()));
      ++shared_->events;
    }
    if (event.has_dropped()) shared_->dropped += event.dropped().count();
    StartRead(&response_);
  }

  void OnDone(const grpc::Status& status) override {
    std::lock_guard<std::mutex> lock(shared_->mutex);
    if (!status.ok() && status.error_code() != grpc::StatusCode::CANCELLED &&
        shared_->first_error.ok()) {
      shared_->first_error = FromGrpcStatus(status);
    }
    ++shared_->ended;
    shared_->all_ended.notify_all();
  }

 private:
  const std::shared_ptr<Shared> shared_;
  grpc::ClientContext context_;
  v1::WatchJobRequest request_;
  v1::WatchJobResponse response_;
};

WatchLoad::WatchLoad(const Channels& channels, std::vector<std::string> jobs,
                     int watchers, std::function<absl::Time(int64_t)> due)
    : shared_(std::make_shared<Shared>()) {
  shared_->due = std::move(due);
  for (const auto& channel : channels) {
    shared_->stubs.push_back(v1::TrainingService::NewStub(channel));
  }
  for (int i = 0; i < watchers; ++i) {
    // Spreads a job's watchers over several connections.
    streams_.push_back(std::make_shared<Stream>(
        shared_, shared_->stubs[i % shared_->stubs.size()].get(),
        jobs[i / channels.size() % jobs.size()]));
  }
}

WatchLoad::~WatchLoad() {
  for (auto& stream : streams_) stream->Cancel();
  std::unique_lock<std::mutex> lock(shared_->mutex);
  shared_->all_ended.wait(lock, [this] {
    return shared_->ended == static_cast<int>(streams_.size());
  });
}

int WatchLoad::open() const { return shared_->open; }
int WatchLoad::ended() const { return shared_->ended; }
absl::Status WatchLoad::first_error() const {
  std::lock_guard<std::mutex> lock(shared_->mutex);
  return shared_->first_error;
}
void WatchLoad::SetMeasuring(bool on) { shared_->measuring = on; }
const Latencies& WatchLoad::latencies() const { return shared_->latencies; }
int64_t WatchLoad::events() const { return shared_->events; }
int64_t WatchLoad::dropped() const { return shared_->dropped; }

}  // namespace comera::bench
