#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/dropout_mask.h"
#include "kernels/cpu/gemm_call.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

constexpr float kMasked = -1e9f;

// Softmax over scores * scale + (1 - mask) * -1e9, in place.
COMERA_CLONES
void SoftmaxRow(float scale, const float* __restrict mask,
                float* __restrict row, int64_t n) {
  float largest = row[0] * scale + (1.0f - mask[0]) * kMasked;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) {
    const float value = row[i] * scale + (1.0f - mask[i]) * kMasked;
    row[i] = value;
    largest = value > largest ? value : largest;
  }
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const float value = VectorExp(row[i] - largest);
    row[i] = value;
    sum += value;
  }
  const float inverse = 1.0f / sum;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) row[i] *= inverse;
}

COMERA_CLONES
void MultiplyRun(const float* x, const float* scales, float* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * scales[i];
}

// grad := p * (grad - sum of grad * p), the gradient of the scores.
COMERA_CLONES
void SoftmaxBackwardRow(const float* __restrict p, float* __restrict grad,
                        int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += grad[i] * p[i];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) grad[i] = p[i] * (grad[i] - sum);
}

// One row of a (length, length) matrix times the multipliers of dropout.
void DropRow(const DropoutMask& dropout, int64_t row, const float* from,
             float* to, int64_t n) {
  alignas(64) float scales[kMaskColumns];
  for (int64_t c = 0; c < n; c += kMaskColumns) {
    const int64_t count = std::min(kMaskColumns, n - c);
    dropout.Fill(row, c, count, scales);
    MultiplyRun(from + c, scales, to + c, count);
  }
}

// to = from * multipliers and grad *= the same multipliers.
void DropRowTwice(const DropoutMask& dropout, int64_t row, const float* from,
                  float* to, float* grad, int64_t n) {
  alignas(64) float scales[kMaskColumns];
  for (int64_t c = 0; c < n; c += kMaskColumns) {
    const int64_t count = std::min(kMaskColumns, n - c);
    dropout.Fill(row, c, count, scales);
    MultiplyRun(from + c, scales, to + c, count);
    MultiplyRun(grad + c, scales, grad + c, count);
  }
}

// The columns of one head and the rows of one sequence; nothing is copied.
template <typename T>
MatrixView<T> HeadOf(MatrixView<T> m, const AttentionShape& s, int64_t index) {
  const int64_t batch = index / s.heads, head = index % s.heads;
  return {m.data + batch * s.length * m.stride + head * s.head_width, s.length,
          s.head_width, m.stride};
}

absl::Status CheckTokens(const char* op, const char* name,
                         const AttentionShape& s, ConstMatrix m) {
  return CheckMatrix(op, name, m, s.batch * s.length, s.heads * s.head_width);
}

bool Empty(const AttentionShape& s) {
  return s.batch == 0 || s.length == 0 || s.heads == 0 || s.head_width == 0;
}

// Runs f(index, thread slot) for every (batch, head) and returns the first
// error by index. A parallel region keeps the products inside on one thread.
template <typename F>
absl::Status ForHeads(int threads, const AttentionShape& s, const F& f) {
  const int64_t heads = s.batch * s.heads;
  const int64_t slots = std::min<int64_t>(threads, heads);
  std::vector<absl::Status> status(slots);
  ParallelRanges(threads, slots,
                 heads / slots * s.length * (s.length + s.head_width),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t slot = begin; slot < end; ++slot) {
                     for (int64_t i = heads * slot / slots;
                          i < heads * (slot + 1) / slots; ++i) {
                       status[slot].Update(f(i, slot));
                     }
                   }
                 });
  for (const absl::Status& each : status) RETURN_IF_ERROR(each);
  return absl::OkStatus();
}

}  // namespace

absl::Status CpuBackend::Attention(const AttentionShape& s,
                                   const DropoutKey& key, ConstMatrix q,
                                   ConstMatrix k, ConstMatrix v,
                                   ConstVector mask, float* probabilities,
                                   Matrix out) {
  constexpr char kOp[] = "Attention";
  RETURN_IF_ERROR(CheckAttention(kOp, s));
  RETURN_IF_ERROR(CheckDropout(kOp, key));
  RETURN_IF_ERROR(CheckTokens(kOp, "q", s, q));
  RETURN_IF_ERROR(CheckTokens(kOp, "k", s, k));
  RETURN_IF_ERROR(CheckTokens(kOp, "v", s, v));
  RETURN_IF_ERROR(CheckTokens(kOp, "out", s, out));
  RETURN_IF_ERROR(CheckVector(kOp, "mask", mask, s.batch * s.length));
  const int64_t square = s.length * s.length;
  RETURN_IF_ERROR(CheckMemory(kOp, "probabilities", probabilities,
                              s.batch * s.heads * square));
  if (Empty(s)) return absl::OkStatus();

  const DropoutMask dropout(key);
  const float scale = 1.0f / std::sqrt(static_cast<float>(s.head_width));
  float* scratch =
      dropout.active() ? Scratch<float>(threads_ * square) : nullptr;
  ScopedThreads pool(threads_);
  return ForHeads(threads_, s, [&](int64_t index, int64_t slot) {
    Matrix scores(probabilities + index * square, s.length, s.length);
    RETURN_IF_ERROR(GemmCall(false, true, 1, HeadOf(q, s, index),
                             HeadOf(k, s, index), 0, scores));
    const float* row_mask = mask.data + index / s.heads * s.length;
    ConstMatrix weights = scores;
    if (dropout.active()) weights.data = scratch + slot * square;
    for (int64_t i = 0; i < s.length; ++i) {
      float* row = scores.data + i * s.length;
      SoftmaxRow(scale, row_mask, row, s.length);
      if (dropout.active()) {
        DropRow(dropout, index * s.length + i, row,
                scratch + slot * square + i * s.length, s.length);
      }
    }
    return GemmCall(false, false, 1, weights, HeadOf(v, s, index), 0,
                    HeadOf(out, s, index));
  });
}

int64_t CpuBackend::AttentionWorkspaceBytes(const AttentionShape& s) {
  // Per thread: the gradient of one head's scores and its dropped weights.
  return 2 * threads_ * s.length * s.length *
         static_cast<int64_t>(sizeof(float));
}

absl::Status CpuBackend::AttentionBackward(const AttentionShape& s,
                                           const DropoutKey& key, ConstMatrix q,
                                           ConstMatrix k, ConstMatrix v,
                                           const float* probabilities,
                                           ConstMatrix grad_out, Matrix grad_q,
                                           Matrix grad_k, Matrix grad_v,
                                           void* workspace) {
  constexpr char kOp[] = "AttentionBackward";
  RETURN_IF_ERROR(CheckAttention(kOp, s));
  RETURN_IF_ERROR(CheckDropout(kOp, key));
  for (const auto& [name, m] : {std::pair<const char*, ConstMatrix>{"q", q},
                                {"k", k},
                                {"v", v},
                                {"grad_out", grad_out},
                                {"grad_q", grad_q},
                                {"grad_k", grad_k},
                                {"grad_v", grad_v}}) {
    RETURN_IF_ERROR(CheckTokens(kOp, name, s, m));
  }
  const int64_t square = s.length * s.length;
  RETURN_IF_ERROR(CheckMemory(kOp, "probabilities", probabilities,
                              s.batch * s.heads * square));
  RETURN_IF_ERROR(CheckMemory(kOp, "workspace", workspace, square));
  if (Empty(s)) return absl::OkStatus();

  const DropoutMask dropout(key);
  const float scale = 1.0f / std::sqrt(static_cast<float>(s.head_width));
  float* scratch = static_cast<float*>(workspace);
  ScopedThreads pool(threads_);
  return ForHeads(threads_, s, [&](int64_t index, int64_t slot) {
    const float* p = probabilities + index * square;
    Matrix grad(scratch + 2 * slot * square, s.length, s.length);
    Matrix dropped(grad.data + square, s.length, s.length);
    ConstMatrix weights(p, s.length, s.length);
    RETURN_IF_ERROR(GemmCall(false, true, 1, HeadOf(grad_out, s, index),
                             HeadOf(v, s, index), 0, grad));
    if (dropout.active()) weights = dropped;
    for (int64_t i = 0; i < s.length; ++i) {
      float* row = grad.data + i * s.length;
      if (dropout.active()) {
        DropRowTwice(dropout, index * s.length + i, p + i * s.length,
                     dropped.data + i * s.length, row, s.length);
      }
      SoftmaxBackwardRow(p + i * s.length, row, s.length);
    }
    RETURN_IF_ERROR(GemmCall(true, false, 1, weights,
                             HeadOf(grad_out, s, index), 0,
                             HeadOf(grad_v, s, index)));
    RETURN_IF_ERROR(GemmCall(false, false, scale, grad, HeadOf(k, s, index), 0,
                             HeadOf(grad_q, s, index)));
    return GemmCall(true, false, scale, grad, HeadOf(q, s, index), 0,
                    HeadOf(grad_k, s, index));
  });
}

}  // namespace comera::kernels
