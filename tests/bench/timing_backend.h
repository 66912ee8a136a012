// A backend that measures how long each operation of another one takes.
#ifndef COMERA_TESTS_BENCH_TIMING_BACKEND_H_
#define COMERA_TESTS_BENCH_TIMING_BACKEND_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "tests/fakes/forwarding_backend.h"

namespace comera::bench {

// Waits until the device is idle before and after every operation, so that a
// step is slower than without it. Not thread-safe.
class TimingBackend : public kernels::ForwardingBackend {
 public:
  struct Times {
    int64_t calls = 0;
    double seconds = 0;
  };

  // `now` gives seconds.
  TimingBackend(kernels::Backend* backend, std::function<double()> now);

  // By the operation's name. What runs together on a device is one call of
  // "Together"; on the host it runs one after the other and is timed so.
  const std::map<std::string, Times>& operations() const { return operations_; }
  // By the sizes of products outside of these, as "8192 x 1024 x 128 NT +=":
  // rows, columns and inner size of the result, what is transposed, and whether
  // the result is added to.
  const std::map<std::string, Times>& products() const { return products_; }
  void Clear();

  absl::Status Gemm(bool transpose_a, bool transpose_b, float alpha,
                    kernels::ConstMatrix a, kernels::ConstMatrix b, float beta,
                    kernels::Matrix c) override;
  absl::Status BeginTogether() override;
  absl::Status EndTogether() override;
  absl::StatusOr<void*> AllocateHost(int64_t bytes) override;
  void FreeHost(void* memory) override;

 private:
  absl::Status Call(const std::string& name, Operation operation) override;
  absl::Status Time(const Operation& operation, Times* times);

  const std::function<double()> now_;
  const bool groups_;  // whether operations run together
  std::map<std::string, Times> operations_, products_;
  int depth_ = 0;  // nested calls of BeginTogether
  double together_start_ = 0;
};

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_TIMING_BACKEND_H_
