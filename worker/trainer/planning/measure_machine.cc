// Measures the speed of a machine, for `comera-trainer --calibrate`.
#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "common/status_macros.h"
#include "kernels/arena.h"
#include "worker/trainer/planning/calibration.h"

namespace comera::trainer {
namespace {

using kernels::ConstMatrix;
using kernels::Matrix;

constexpr double kBudgetSeconds = 0.7;  // for one measurement
constexpr int kLeastRuns = 4;           // the first warms up

double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The sizes that operations are timed on. A GPU is full only with far more
// work, and gets many calls between two waits.
struct Sizes {
  int64_t side;  // rows and columns of the square product
  int64_t rows;  // rows of the thin products
  int64_t bytes;
  int64_t math;  // elements that stay in the caches
  int calls;     // between two waits
};
constexpr Sizes kCpuSizes = {1024, 4096, int64_t{64} << 20, 1 << 16, 1};
constexpr Sizes kGpuSizes = {8192, 65536, int64_t{1} << 30, 1 << 22, 20};

// The least seconds that one run took.
absl::StatusOr<double> Best(kernels::Backend* backend, int calls,
                            const std::function<absl::Status()>& run) {
  double best = 1e30;
  const double start = Now();
  for (int i = 0; i < kLeastRuns || Now() - start < kBudgetSeconds; ++i) {
    const double before = Now();
    for (int call = 0; call < calls; ++call) RETURN_IF_ERROR(run());
    RETURN_IF_ERROR(backend->Synchronize());
    if (i > 0) best = std::min(best, (Now() - before) / calls);
  }
  return std::max(best, 1e-9);
}

}  // namespace

absl::StatusOr<kernels::MachineSpeed> MeasureMachine(kernels::Backend* backend,
                                                     const Machine& machine) {
  const Sizes sizes = machine.gpu ? kGpuSizes : kCpuSizes;
  const int64_t side = sizes.side, rows = sizes.rows, bytes = sizes.bytes;
  constexpr int64_t kWidth = 768;
  constexpr int64_t kThin =
      static_cast<int64_t>(kernels::MachineSpeed::kSkinnySide);
  kernels::Arena arena(backend);
  const auto from_piece = arena.Reserve("from", bytes);
  const auto to_piece = arena.Reserve("to", bytes);
  const auto state_piece = arena.Reserve("state", sizeof(kernels::StepState));
  RETURN_IF_ERROR(arena.Commit());
  float* from = arena.Floats(from_piece);
  float* to = arena.Floats(to_piece);
  const int64_t floats = bytes / int64_t{sizeof(float)};
  RETURN_IF_ERROR(backend->Fill({from, floats}, 0.5f));
  RETURN_IF_ERROR(backend->Fill({to, floats}, 0.5f));

  // What is not timed below stays: the rates of the GPU's own kernels.
  kernels::MachineSpeed speed = machine.defaults;
  const auto gemm = [&](int64_t m, int64_t n, int64_t k) {
    return Best(backend, sizes.calls, [=] {
      return backend->Gemm(false, false, 1, ConstMatrix(from, m, k),
                           ConstMatrix(from + m * k, k, n), 0,
                           Matrix(to, m, n));
    });
  };
  ASSIGN_OR_RETURN(const double square, gemm(side, side, side));
  speed.square_rate = static_cast<double>(side * side * side) / square;
  // The mean of products that are thin outside, as X A, and inside, as T B.
  ASSIGN_OR_RETURN(const double down, gemm(rows, kThin, kWidth));
  ASSIGN_OR_RETURN(const double up, gemm(rows, kWidth, kThin));
  speed.skinny_rate =
      static_cast<double>(2 * rows * kThin * kWidth) / (down + up);
  // A GPU's tiny product is no measure of its kernels, of which each waits for
  // the one before and walks through a tile at least.
  if (!machine.gpu) {
    ASSIGN_OR_RETURN(speed.call_seconds, gemm(8, 8, 8));
  }

  // Every byte is read and written once.
  ASSIGN_OR_RETURN(const double move, Best(backend, sizes.calls, [=] {
                     return backend->Axpy(0, {from, floats}, {to, floats});
                   }));
  speed.bytes_per_second = 3.0 * static_cast<double>(bytes) / move;

  // These values stay in the caches, so that memory does not count.
  const int64_t math = sizes.math;
  ASSIGN_OR_RETURN(const double gelu, Best(backend, sizes.calls, [=] {
                     return backend->Activate(
                         kernels::Activation::kGelu,
                         ConstMatrix(from, math / 256, 256),
                         Matrix(to, math / 256, 256));
                   }));
  speed.math_rate = static_cast<double>(math) / gelu;
  kernels::DropoutKey key;
  key.rate = 0.1f;
  key.state =
      static_cast<const kernels::StepState*>(arena.Address(state_piece));
  ASSIGN_OR_RETURN(const double random, Best(backend, sizes.calls, [=] {
                     return backend->Dropout(key,
                                             ConstMatrix(from, math / 256, 256),
                                             Matrix(to, math / 256, 256));
                   }));
  speed.random_rate = static_cast<double>(math) / random;
  // A thin product is never the faster one.
  speed.skinny_rate = std::min(speed.skinny_rate, speed.square_rate);
  return speed;
}

}  // namespace comera::trainer
