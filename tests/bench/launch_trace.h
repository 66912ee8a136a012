// What one training step enqueues on a GPU, without a GPU.
#ifndef COMERA_TESTS_BENCH_LAUNCH_TRACE_H_
#define COMERA_TESTS_BENCH_LAUNCH_TRACE_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_backend.h"
#include "proto/comera/v1/job.pb.h"

namespace comera::bench {

// A product by rows: c (rows, cols) with `inner` products to an element.
struct TracedProduct {
  int64_t rows = 0, cols = 0, inner = 0;
  bool transpose_a = false, transpose_b = false;
  bool misaligned = false;  // an operand is off 16 bytes
  int64_t batch = 1;        // products in one launch

  bool operator<(const TracedProduct& other) const {
    return Key() < other.Key();
  }

 private:
  std::tuple<int64_t, int64_t, int64_t, bool, bool, bool, int64_t> Key() const {
    return {rows, cols, inner, transpose_a, transpose_b, misaligned, batch};
  }
};

// The launches of a step, by the operations of the backend that make them.
struct LaunchTrace {
  struct Operation {
    int64_t calls = 0;
    int64_t kernels = 0, products = 0;  // own kernels, and cuBLAS's
    int64_t copies = 0, fills = 0;      // within the device
    int64_t launches() const { return kernels + products + copies + fills; }
  };
  // Small operations that run beside each other are one, "Together".
  std::map<std::string, Operation> operations;
  std::map<TracedProduct, int64_t> products;  // and how often
  int64_t misaligned_products = 0;
  // What the planner counts: bytes read and written outside of products, and
  // multiply-adds.
  double moved_bytes = 0, multiply_adds = 0;
  double predicted_seconds = 0, predicted_launches = 0;
  int64_t activation_bytes = 0;
  // Device memory that the backend took for itself: scratch memory, the
  // workspace of cuBLAS, and 64 KiB in which blocks count each other.
  int64_t backend_bytes = 0;

  int64_t launches() const;
  // A line for each operation and each product, in a fixed order.
  std::string Text() const;
};

// Plans the job's model on a CUDA backend of the fake device and enqueues one
// step, AdamW included, of which nothing is computed. The job's batch has
// full-length samples and is padded as captured steps are.
absl::StatusOr<LaunchTrace> TraceStep(const v1::JobSpec& spec,
                                      int64_t vocabulary,
                                      kernels::CudaPrecision precision);

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_LAUNCH_TRACE_H_
