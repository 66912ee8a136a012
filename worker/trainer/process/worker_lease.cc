// Looks at the times of the file that the worker touches.
#include "worker/trainer/process/worker_lease.h"

#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "common/steady_time.h"

namespace comera::trainer {
namespace {

constexpr absl::Duration kLongestInterval = absl::Seconds(10);

// The time of the last change, in nanoseconds.
std::optional<int64_t> Stamp(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return absl::ToUnixNanos(absl::TimeFromTimespec(info.st_mtim));
}

}  // namespace

bool WorkerLease::Holds(std::optional<int64_t> stamp, absl::Time now) {
  if (stamp.has_value() && stamp != stamp_) {
    stamp_ = stamp;
    renewed_ = now;
  }
  return now - renewed_ < length_;
}

LeaseWatch::LeaseWatch(const Options& options, std::function<void()> on_end)
    : options_(options),
      interval_(std::min(options.lease / 10, kLongestInterval)),
      on_end_(std::move(on_end)) {
  thread_ = std::thread([this] { Loop(); });
}

LeaseWatch::~LeaseWatch() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ending_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

bool LeaseWatch::Sleep(absl::Duration duration) {
  std::unique_lock<std::mutex> lock(mutex_);
  return !ended_.wait_for(
      lock, absl::ToChronoNanoseconds(duration),
      [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ending_; });
}

bool LeaseWatch::Holds(WorkerLease& lease) {
  return lease.Holds(Stamp(options_.file), SteadyNow());
}

void LeaseWatch::Loop() {
  WorkerLease lease(options_.lease, SteadyNow());
  bool held = Holds(lease);
  while (held) {
    if (!Sleep(interval_)) return;
    held = Holds(lease);
    if (held) continue;
    if (!Sleep(interval_)) return;
    held = Holds(lease);
  }
  LOG(WARNING) << "the worker has been away for " << options_.lease
               << ": saving the state and ending";
  on_end_();
  if (!Sleep(options_.patience)) return;
  LOG(ERROR) << "the state was not saved within " << options_.patience;
  kill(0, SIGKILL);
}

}  // namespace comera::trainer
