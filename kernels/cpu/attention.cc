// Computes multi-head attention and its gradients, sequence by sequence.
#include <cmath>
#include <utility>

#include "common/status_macros.h"
#include "kernels/cpu/attention_core.h"
#include "kernels/cpu/check_sequences.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/dropout_mask.h"
#include "kernels/cpu/panel_gemm.h"
#include "kernels/cpu/parallel.h"
#include "kernels/operand_check.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

bool Empty(const AttentionShape& s) {
  return s.tokens == 0 || s.heads == 0 || s.head_width == 0;
}

// The parts of one thread's scratch: keys and values transposed, and what a
// head needs.
int64_t TransposedFloats(const AttentionShape& s) {
  return s.head_width * PaddedLength(s.max_length);
}
int64_t ThreadFloats(const AttentionShape& s) {
  return 2 * TransposedFloats(s) + HeadScratchFloats(s.max_length);
}

// One head of one sequence: its rows and columns of a token matrix.
struct Unit {
  int64_t first = 0, length = 0;
  int64_t head = 0, width = 0;

  template <typename T>
  MatrixView<T> Of(MatrixView<T> m) const {
    return {m.data + first * m.stride + head * width, length, width, m.stride};
  }
};

// Runs f(unit, scratch) for every head of every sequence. Units write apart
// from each other, so it does not matter which thread takes which.
template <typename F>
void ForUnits(int threads, const AttentionShape& s, ConstIndices offsets,
              void* workspace, const F& f) {
  const int64_t units = s.sequences * s.heads;
  float* scratch = static_cast<float*>(workspace);
  const int64_t each = ThreadFloats(s);
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (int64_t i = 0; i < units; ++i) {
    const int64_t first = offsets.data[i / s.heads];
    const Unit unit = {first, offsets.data[i / s.heads + 1] - first,
                       i % s.heads, s.head_width};
    if (unit.length > 0) f(unit, scratch + omp_get_thread_num() * each);
  }
}

}  // namespace

int64_t CpuBackend::AttentionWorkspaceBytes(const AttentionShape& s) {
  return threads_ * ThreadFloats(s) * static_cast<int64_t>(sizeof(float));
}

absl::Status CpuBackend::Attention(const AttentionShape& s,
                                   const DropoutKey& key, ConstIndices offsets,
                                   ConstMatrix q, ConstMatrix k, ConstMatrix v,
                                   float* log_sum, Matrix out,
                                   void* workspace) {
  constexpr char kOp[] = "Attention";
  RETURN_IF_ERROR(CheckAttentionOperands(
      kOp, s, key, offsets, {{"q", q}, {"k", k}, {"v", v}, {"out", out}},
      log_sum, workspace));
  RETURN_IF_ERROR(CheckSequences(kOp, s, offsets));
  if (Empty(s)) return absl::OkStatus();

  const DropoutMask dropout(key);
  const float scale = 1.0f / std::sqrt(static_cast<float>(s.head_width));
  ForUnits(threads_, s, offsets, workspace, [&](const Unit& u, float* keys_t) {
    const ConstMatrix keys = u.Of(k);
    TransposePanel(scale, keys.data, keys.stride, u.length, u.width, keys_t,
                   PaddedLength(u.length));
    HeadForward({u.Of(q), keys_t}, {dropout, u.first, s.heads, u.head}, u.Of(v),
                false, u.Of(out), log_sum + u.head * s.tokens + u.first,
                keys_t + 2 * TransposedFloats(s));
  });
  return absl::OkStatus();
}

absl::Status CpuBackend::AttentionBackward(
    const AttentionShape& s, const DropoutKey& key, ConstIndices offsets,
    ConstMatrix q, ConstMatrix k, ConstMatrix v, const float* log_sum,
    ConstMatrix grad_out, Matrix grad_q, Matrix grad_k, Matrix grad_v,
    void* workspace) {
  constexpr char kOp[] = "AttentionBackward";
  RETURN_IF_ERROR(CheckAttentionOperands(kOp, s, key, offsets,
                                         {{"q", q},
                                          {"k", k},
                                          {"v", v},
                                          {"grad_out", grad_out},
                                          {"grad_q", grad_q},
                                          {"grad_k", grad_k},
                                          {"grad_v", grad_v}},
                                         log_sum, workspace));
  RETURN_IF_ERROR(CheckSequences(kOp, s, offsets));
  if (Empty(s)) return absl::OkStatus();

  const DropoutMask dropout(key);
  const float scale = 1.0f / std::sqrt(static_cast<float>(s.head_width));
  ForUnits(threads_, s, offsets, workspace, [&](const Unit& u, float* keys_t) {
    float* values_t = keys_t + TransposedFloats(s);
    const ConstMatrix keys = u.Of(k), values = u.Of(v);
    const int64_t padded = PaddedLength(u.length);
    TransposePanel(scale, keys.data, keys.stride, u.length, u.width, keys_t,
                   padded);
    TransposePanel(1, values.data, values.stride, u.length, u.width, values_t,
                   padded);
    HeadBackward({u.Of(q), keys_t}, {dropout, u.first, s.heads, u.head}, keys,
                 values_t, log_sum + u.head * s.tokens + u.first,
                 u.Of(grad_out), scale,
                 {u.Of(grad_q), u.Of(grad_k), u.Of(grad_v)},
                 values_t + TransposedFloats(s));
  });
  return absl::OkStatus();
}

}  // namespace comera::kernels
