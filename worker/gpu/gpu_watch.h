// Which GPUs may take a rank.
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

// Looks at the GPUs again and again. One is unfit
// - for good (until this process starts anew, after the GPU was reset) after a
//   critical Xid error other than those that programs cause themselves;
// - while its memory has uncorrected errors, it cannot be read, or it is as hot
//   as where it slows down;
// - while no rank of this worker runs there, but somebody holds its memory:
//   strangers, or for a moment what is left of the last rank.
//
// Life cycle: Start runs a thread that looks until destruction; a test calls
// Look itself. Thread safety: all methods from any thread, but one Look at a
// time.
class GpuWatch {
 public:
  struct Options {
    absl::Duration interval = absl::Seconds(2);
    // While the memory of a rank that ended is awaited.
    absl::Duration short_interval = absl::Milliseconds(100);
    // After which memory that is not free is said to be held, not awaited.
    absl::Duration free_timeout = absl::Seconds(30);
    // What may be in use on a GPU that nobody uses: contexts of monitoring.
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
  // Looks at all GPUs once. True: a reason has changed.
  bool Poll();

  // A GPU as it was last looked at; no reading: it could not be read.
  struct Seen {
    v1::Gpu gpu;
    std::string unfit;
    std::optional<GpuReading> reading;
  };
  std::vector<Seen> seen() const;

  // Why no rank may start on the GPU now; empty: one may.
  std::string Unfit(const std::string& uuid) const;
  // A rank of this worker starts there; has ended there, so that the GPU is
  // unfit until its memory was seen to be free.
  void Begin(const std::string& uuid);
  void End(const std::string& uuid);

 private:
  struct State {
    int ranks = 0;
    // Since when memory is awaited.
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
