// Decides which GPUs are fit to run a member.
#ifndef COMERA_WORKER_GPU_GPU_WATCH_H_
#define COMERA_WORKER_GPU_GPU_WATCH_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "worker/gpu/gpu_driver.h"

namespace comera::worker {

// Polls the GPUs. A GPU is unfit
// - for good (until it is reset and this process restarted) after a critical
// Xid error other than those that programs cause themselves;
// - while its memory has uncorrected errors, it cannot be read, or it is as hot
// as where it slows down;
// - while no member of this worker runs on it, but something holds its memory:
// a foreign process, or for a moment the remains of the last member.
//
// Life cycle: Start runs a thread that polls until destruction; a test calls
// Poll itself. Thread safety: any method from any thread, but one Poll at a
// time.
class GpuWatch {
 public:
  struct Options {
    absl::Duration interval = absl::Seconds(2);
    // The interval while the memory of a member that ended is expected to
    // become free.
    absl::Duration short_interval = absl::Milliseconds(100);
    // The time after which memory that is not free counts as held by something
    // else.
    absl::Duration free_timeout = absl::Seconds(30);
    // The memory that an idle GPU may show as used, e.g. by monitoring.
    int64_t idle_bytes = int64_t{512} << 20;
    // Degrees below the slowdown temperature at which a hot GPU is fit again.
    int cooling = 5;
    Clock* clock = Clock::Real();
  };

  GpuWatch(const Options& options, std::unique_ptr<GpuDriver> driver);
  ~GpuWatch();

  const std::vector<v1::Gpu>& gpus() const { return driver_->gpus(); }

  // `changed` is called from the thread when a reason has changed.
  void Start(std::function<void()> changed);
  // Reads all GPUs once. Returns true if a reason has changed.
  bool Poll();

  // A GPU as of the last poll; `reading` is empty if it could not be read.
  struct Seen {
    v1::Gpu gpu;
    std::string unfit;
    std::optional<GpuReading> reading;
  };
  std::vector<Seen> seen() const;

  // Why no member may start on the GPU now; empty if one may.
  std::string Unfit(const std::string& uuid) const;
  // A member of this worker starts on the GPU, or has ended there. After its
  // end the GPU is unfit until its memory was seen to be free.
  void Begin(const std::string& uuid);
  void End(const std::string& uuid);

 private:
  struct State {
    int ranks = 0;
    // The time since when memory is expected to become free.
    std::optional<absl::Time> ended;
    bool hot = false;
    std::string fatal;
    std::optional<GpuReading> reading;
    std::string reason = "not checked yet";
  };

  State* Find(const std::string& uuid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RecordXids() ABSL_LOCKS_EXCLUDED(mutex_);
  std::string Judge(const absl::StatusOr<GpuReading>& reading, State& state)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string JudgeMemory(const GpuReading& reading, State& state)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Duration Interval() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Loop(const std::function<void()>& changed);

  const Options options_;
  const std::unique_ptr<GpuDriver> driver_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<State> states_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_GPU_GPU_WATCH_H_
