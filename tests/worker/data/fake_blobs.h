#ifndef COMERA_TESTS_WORKER_DATA_FAKE_BLOBS_H_
#define COMERA_TESTS_WORKER_DATA_FAKE_BLOBS_H_

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "common/files.h"
#include "worker/data/blob_source.h"

namespace comera::worker {

// A source of blobs in memory, with the faults that a test asks for.
// Thread-safe.
class FakeBlobs : public BlobSource {
 public:
  std::string Add(const std::string& data) {
    const std::lock_guard<std::mutex> lock(mutex_);
    blobs_[Sha256Hex(data)] = data;
    return Sha256Hex(data);
  }
  void Remove(const std::string& sha256) {
    const std::lock_guard<std::mutex> lock(mutex_);
    blobs_.erase(sha256);
  }
  // Makes each of the next fetches end with Unavailable after this many bytes.
  void Break(std::vector<int64_t> after) {
    const std::lock_guard<std::mutex> lock(mutex_);
    breaks_ = std::move(after);
  }
  // Makes fetches wait until Open() or their cancellation.
  void Close() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }
  void Open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = false;
    changed_.notify_all();
  }
  void WaitForFetches(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return offsets_.size() >= count; });
  }
  // The offset at which each fetch began.
  std::vector<int64_t> offsets() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return offsets_;
  }

  absl::Status Fetch(const std::string& sha256, int64_t offset,
                     const std::atomic<bool>& cancelled,
                     const Sink& sink) override {
    std::unique_lock<std::mutex> lock(mutex_);
    offsets_.push_back(offset);
    changed_.notify_all();
    while (closed_ && !cancelled) {
      changed_.wait_for(lock, std::chrono::milliseconds(5));
    }
    if (cancelled) return absl::CancelledError("cancelled");
    const auto it = blobs_.find(sha256);
    if (it == blobs_.end()) return absl::NotFoundError("no such blob");
    const std::string rest = it->second.substr(offset);
    int64_t count = static_cast<int64_t>(rest.size());
    const bool breaks = !breaks_.empty();
    if (breaks) {
      count = breaks_.front();
      breaks_.erase(breaks_.begin());
    }
    lock.unlock();
    const absl::Status status = sink(rest.substr(0, count));
    if (!status.ok()) return status;
    return breaks ? absl::UnavailableError("the line broke") : absl::OkStatus();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> blobs_;
  std::vector<int64_t> breaks_;
  std::vector<int64_t> offsets_;
  bool closed_ = false;
};

}  // namespace comera::worker

#endif  // COMERA_TESTS_WORKER_DATA_FAKE_BLOBS_H_
