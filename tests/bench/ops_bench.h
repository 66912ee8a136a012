// What the benchmarks of operations share: the backend that the flags name, its
// memory, and the measuring loop.
#ifndef COMERA_TESTS_BENCH_OPS_BENCH_H_
#define COMERA_TESTS_BENCH_OPS_BENCH_H_

#include <benchmark/benchmark.h>

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "comera/v1/job.pb.h"
#include "kernels/backend.h"
#include "worker/trainer/process/make_backend.h"

namespace comera::kernels {

constexpr int64_t kTokens = 4096;  // 32 x 128
constexpr int64_t kHidden = 768;

// The flags of //tests/bench:ops; set before the benchmarks run.
trainer::BackendOptions& OpsOptions();

// Allocates memory of one backend, which must outlive it.
class Buffers {
 public:
  explicit Buffers(Backend* backend) : backend_(backend) {}
  ~Buffers();
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  // Values are random in [-1, 1).
  float* Floats(int64_t count);
  Matrix M(int64_t rows, int64_t cols) {
    return {Floats(rows * cols), rows, cols};
  }
  Vector V(int64_t size) { return {Floats(size), size}; }
  ConstIndices I(const std::vector<int32_t>& values);
  const StepState* State();

 private:
  void* Upload(const void* from, int64_t bytes);

  Backend* backend_;
  std::vector<void*> memory_;
  std::mt19937 random_{1};
};

// A backend and its buffers. Ends the program if the backend cannot be created,
// because main has checked that already.
struct Bench {
  Bench() : Bench(OpsOptions().precision) {}
  explicit Bench(v1::TrainingSpec::Precision precision);

  // Runs `op` until the benchmark is done. On a device with graphs, several
  // calls are replayed as one graph between two readings of the clock, so that
  // the device is measured and not the launches.
  void Repeat(benchmark::State& state, const std::function<absl::Status()>& op);

  Backend* const backend;
  Buffers buffers{backend};
};

// Set the counters GFLOP/s, or GB/s of memory that must move.
void Flops(benchmark::State& state, double flops);
void Floats(benchmark::State& state, double floats);

}  // namespace comera::kernels

#endif  // COMERA_TESTS_BENCH_OPS_BENCH_H_
