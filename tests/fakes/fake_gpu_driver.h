// A GPU driver whose readings the test sets.
#ifndef COMERA_TESTS_FAKES_FAKE_GPU_DRIVER_H_
#define COMERA_TESTS_FAKES_FAKE_GPU_DRIVER_H_

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/gpu/gpu_driver.h"

namespace comera::worker {

// Has GPUs "GPU-0", "GPU-1", ... in good health. Thread-safe.
class FakeGpuDriver final : public GpuDriver {
 public:
  explicit FakeGpuDriver(int count) : readings_(count, GpuReading()) {
    for (int i = 0; i < count; ++i) {
      v1::Gpu gpu;
      gpu.set_uuid(absl::StrCat("GPU-", i));
      gpu.set_name("NVIDIA Fake");
      gpu.set_memory_bytes(int64_t{80} << 30);
      gpus_.push_back(std::move(gpu));
    }
  }

  void Set(int gpu, absl::StatusOr<GpuReading> reading) {
    const std::lock_guard<std::mutex> lock(mutex_);
    readings_[gpu] = std::move(reading);
  }
  void AddXid(int gpu, uint64_t xid) {
    const std::lock_guard<std::mutex> lock(mutex_);
    xids_.push_back({gpu, xid});
  }

  const std::vector<v1::Gpu>& gpus() const override { return gpus_; }
  absl::StatusOr<GpuReading> Read(int gpu) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return readings_[gpu];
  }
  absl::StatusOr<std::vector<GpuXid>> PopXids() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(xids_, {});
  }

 private:
  std::vector<v1::Gpu> gpus_;
  std::mutex mutex_;
  std::vector<absl::StatusOr<GpuReading>> readings_;
  std::vector<GpuXid> xids_;
};

}  // namespace comera::worker

#endif  // COMERA_TESTS_FAKES_FAKE_GPU_DRIVER_H_
