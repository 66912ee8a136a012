// The unoptimised embedding lookup against which TtmChain is measured.
#ifndef COMERA_TESTS_BENCH_TTM_ROW_CHAIN_H_
#define COMERA_TESTS_BENCH_TTM_ROW_CHAIN_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/contraction/tt_shape.h"

namespace comera::kernels {

// The lookup as in TT-Rec: every id by itself, one matrix product per core,
// each intermediate kept for the backward pass; ids share nothing. Products are
// the backend's. In the backward pass they read cores that are transposed once
// per step, the layout that suits the backend best.
class TtmRowChain {
 public:
  TtmRowChain(Backend* backend, const TtmShape& shape, int64_t max_ids);
  ~TtmRowChain();

  // The bytes of its working memory, without cores, their gradients, ids and
  // results.
  int64_t bytes() const { return bytes_; }

  absl::Status Forward(absl::Span<const float* const> cores,
                       absl::Span<const int32_t> ids, Matrix out);
  // Adds the gradients of cores to grad_cores, in order of ids.
  absl::Status Backward(absl::Span<const float* const> cores,
                        absl::Span<const int32_t> ids, ConstMatrix grad_out,
                        absl::Span<float* const> grad_cores);

 private:
  // The slice of core k at digit i: (left rank, column mode * right rank).
  int64_t SliceCols(int k) const;
  template <typename T>
  MatrixView<T> Slice(T* core, int k, int64_t digit) const;
  float* Floats(int64_t count);
  void SetDigits(int64_t id);

  Backend* const backend_;
  const TtmShape shape_;
  int64_t bytes_ = 0;
  std::vector<void*> memory_;
  // The digits of the current row, and its columns before core k.
  std::vector<int64_t> digits_, cols_;
  // The states of all ids after core k.
  std::vector<float*> states_;
  // The transposed cores: (mode, column mode * right, left).
  std::vector<float*> transposed_;
  // The gradients of one id's states.
  float* grads_[2];
};

}  // namespace comera::kernels

#endif  // COMERA_TESTS_BENCH_TTM_ROW_CHAIN_H_
