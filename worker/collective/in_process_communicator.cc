// Collectives between threads of one process.
#include "worker/collective/in_process_communicator.h"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace comera::collective {
namespace {

enum class Operation { kAllReduce, kBroadcast, kBarrier };

// What one member brings to the collective under way.
struct Contribution {
  Operation operation = Operation::kBarrier;
  void* data = nullptr;
  size_t size = 0;  // Elements: floats or bytes.
  int root = 0;
};

// The meeting point. The last member to arrive does the work for all under the
// lock, so no member can leave while another touches its buffer.
class Group {
 public:
  Group(int world_size, absl::Duration timeout)
      : timeout_(timeout), contributions_(world_size) {}

  absl::Status Meet(int rank, const Contribution& contribution) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!broken_.ok()) return broken_;
    if (lost_ >= 0) return Lost();
    contributions_[rank] = contribution;
    const int64_t mine = generation_;
    if (++arrived_ == static_cast<int>(contributions_.size())) {
      broken_ = Perform();
      arrived_ = 0;
      ++generation_;
      changed_.notify_all();
      return broken_;
    }
    const auto over = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return generation_ != mine || !broken_.ok() || lost_ >= 0;
    };
    if (!changed_.wait_for(lock, absl::ToChronoNanoseconds(timeout_), over)) {
      Break(absl::UnavailableError(
          absl::StrCat("rank ", rank, " gave up waiting")));
      return absl::DeadlineExceededError(absl::StrCat(
          "only ", arrived_, " of ", contributions_.size(),
          " ranks arrived within ", absl::FormatDuration(timeout_)));
    }
    // A collective that was completed stays so, whatever happened since.
    if (generation_ != mine) return result_;
    return broken_.ok() ? Lost() : broken_;
  }

  void Break(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (broken_.ok()) broken_ = std::move(status);
    changed_.notify_all();
  }

  void Abort(int rank) {
    std::unique_lock<std::mutex> lock(mutex_);
    Break(absl::UnavailableError(absl::StrCat("rank ", rank, " aborted")));
  }

  void Leave(int rank) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (lost_ < 0) lost_ = rank;
    changed_.notify_all();
  }

 private:
  absl::Status Lost() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return absl::UnavailableError(absl::StrCat("rank ", lost_, " was lost"));
  }

  absl::Status Perform() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    result_ = absl::OkStatus();
    const Contribution& first = contributions_[0];
    for (const Contribution& other : contributions_) {
      if (other.operation != first.operation || other.size != first.size ||
          other.root != first.root) {
        result_ = absl::InvalidArgumentError(
            absl::StrCat("ranks call different collectives: sizes ", first.size,
                         " and ", other.size));
        return result_;
      }
    }
    if (first.size == 0) return result_;
    if (first.operation == Operation::kAllReduce) {
      const float* start = static_cast<const float*>(first.data);
      std::vector<float> sum(start, start + first.size);
      for (size_t r = 1; r < contributions_.size(); ++r) {
        const float* values = static_cast<const float*>(contributions_[r].data);
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
      }
      for (const Contribution& other : contributions_) {
        std::memcpy(other.data, sum.data(), sum.size() * sizeof(float));
      }
    } else {
      const void* source = contributions_[first.root].data;
      for (const Contribution& other : contributions_) {
        if (other.data != source) std::memcpy(other.data, source, first.size);
      }
    }
    return result_;
  }

  const absl::Duration timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Contribution> contributions_ ABSL_GUARDED_BY(mutex_);
  int arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  // Number of collectives completed, and how the last one ended.
  int64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status result_ ABSL_GUARDED_BY(mutex_);
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);
  int lost_ ABSL_GUARDED_BY(mutex_) = -1;
};

class InProcessCommunicator : public Communicator {
 public:
  InProcessCommunicator(std::shared_ptr<Group> group, int rank, int world_size)
      : group_(std::move(group)), rank_(rank), world_size_(world_size) {}
  ~InProcessCommunicator() override { group_->Leave(rank_); }

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }

  absl::Status AllReduce(absl::Span<float> values) override {
    return Run({Operation::kAllReduce, values.data(), values.size(), 0});
  }

  absl::Status Broadcast(absl::Span<char> bytes, int root) override {
    if (error_.ok() && (root < 0 || root >= world_size_)) {
      error_ = absl::InvalidArgumentError(absl::StrCat("no rank ", root));
    }
    return Run({Operation::kBroadcast, bytes.data(), bytes.size(), root});
  }

  absl::Status Barrier() override { return Run(Contribution()); }

  void Abort() override {
    aborted_ = true;
    group_->Abort(rank_);
  }

  int64_t collectives_done() const override { return done_; }

 private:
  absl::Status Run(const Contribution& contribution) {
    if (!error_.ok()) return error_;
    error_ = group_->Meet(rank_, contribution);
    if (error_.ok()) {
      ++done_;
    } else if (aborted_) {
      error_ = absl::AbortedError("Abort was called");
    }
    return error_;
  }

  const std::shared_ptr<Group> group_;
  const int rank_;
  const int world_size_;
  std::atomic<bool> aborted_{false};
  std::atomic<int64_t> done_{0};
  absl::Status error_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> CreateInProcessGroup(
    int world_size, const InProcessOptions& options) {
  auto group = std::make_shared<Group>(world_size, options.timeout);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < world_size; ++rank) {
    communicators.push_back(
        std::make_unique<InProcessCommunicator>(group, rank, world_size));
  }
  return communicators;
}

}  // namespace comera::collective
