// Small operations that run beside each other in few launches: what lies
// between BeginTogether and EndTogether.
#ifndef COMERA_KERNELS_CUDA_SMALL_TASKS_H_
#define COMERA_KERNELS_CUDA_SMALL_TASKS_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/launch.h"
#include "kernels/product_split.h"
#include "kernels/task_levels.h"
#include "kernels/tensor.h"

namespace comera::kernels {

// One operation, as the kernel takes it. Matrices are (rows, cols) with their
// strides; vectors have `rows` elements.
struct SmallTask {
  enum Kind : int32_t {
    kGemm,        // c = alpha op(a) op(b) + beta c + x, a vector of cols or
                  // null; op(a) is (rows, inner)
    kTensorGemm,  // the same on tensor cores
    kFold,        // c = a * (b > alpha ? b : 0), b a vector of cols
    kUnfold,      // FoldCoreBackward: g a, d b, grad_h x, grad_g c, grad_d y
    kCopy,        // c = a, of vectors
    kFill,        // c = alpha
    kAxpy,        // c += alpha a
    kCopyRows,    // c = a, of matrices
    kRound,       // c = a rounded to bfloat16, of which c_stride counts
  };
  const float *a = nullptr, *b = nullptr, *x = nullptr;
  float *c = nullptr, *y = nullptr;
  int32_t rows = 0, cols = 1, inner = 0;
  int32_t a_stride = 0, b_stride = 0, c_stride = 0;
  float alpha = 0, beta = 0;
  int16_t kind = kGemm;
  bool transpose_a = false, transpose_b = false;
  // What the launch decides: a product's parts (ProductSplit) and where it
  // finds its share of SplitScratch; the first block.
  int32_t parts = 1, part_inner = 0, first_sum = 0, first_arrived = 0;
  int32_t first_block = 0;
};

// A product as a task: c = alpha op(a) op(b) + beta c. SmallTasks::Takes must
// be true of its sizes.
SmallTask ProductTask(bool transpose_a, bool transpose_b, float alpha,
                      ConstMatrix a, ConstMatrix b, float beta, Matrix c);

// Where blocks meet that share out the inner size of a product; of one launch.
struct SplitScratch {
  float* sums = nullptr;   // as many floats as the launch needs
  int* arrived = nullptr;  // kMostTiles of zeros, which it leaves as such
};

// Finds memory for a launch whose parts need so many floats, at most
// GroupedLaunches::kScratchFloats.
using SplitMemory = std::function<absl::StatusOr<SplitScratch>(int64_t floats)>;

// Collects operations and runs them by levels (TaskLevels), of which each is a
// launch. Operands must have been checked.
class SmallTasks {
 public:
  // Whether a product joins: larger ones fill the device by themselves.
  static bool Takes(int64_t m, int64_t n, int64_t k);

  void AddGemm(bool transpose_a, bool transpose_b, float alpha, ConstMatrix a,
               ConstMatrix b, float beta, Matrix c);
  void AddFold(ConstMatrix g, ConstVector d, float threshold, Matrix h);
  void AddUnfold(ConstMatrix g, ConstVector d, float threshold,
                 ConstMatrix grad_h, Matrix grad_g, Vector grad_d);
  void AddCopy(void* to, const void* from, int64_t bytes, cudaStream_t stream);
  void AddCopyRows(ConstMatrix from, Matrix to);
  void AddRound(ConstMatrix x, Bf16Matrix y);
  void AddFill(Vector x, float value);
  void AddAxpy(float alpha, ConstVector x, Vector y);
  // Any other: `call` enqueues it.
  void AddCall(std::initializer_list<ConstMatrix> reads,
               std::initializer_list<ConstMatrix> writes,
               std::function<absl::Status()> call);

  // Enqueues all, level by level, and forgets them, also after an error.
  // Products on tensor cores are of `precision`.
  absl::Status Run(KernelStream stream, CudaPrecision precision,
                   const SplitMemory& memory);

 private:
  struct Entry {
    int level = 0;
    SmallTask task;
    std::function<absl::Status()> call;  // in place of `task`
    std::vector<ConstMatrix> reads, writes;
  };

  void Add(Entry entry);

  std::vector<Entry> entries_;
  TaskLevels levels_;
};

// small_tasks.cu.cc. Of one level.
absl::Status LaunchSmallTasks(KernelStream stream, CudaPrecision precision,
                              const SplitMemory& memory,
                              std::vector<SmallTask> tasks);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_SMALL_TASKS_H_
