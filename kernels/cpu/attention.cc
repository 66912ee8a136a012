// Computes multi-head attention and its gradients, sequence by sequence.
#include <algorithm>
#include <cmath>
#include <utility>

#include "common/status_macros.h"
#include "kernels/cpu/attention_core.h"
#include "kernels/cpu/check_sequences.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/dropout_mask.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products/panel_gemm.h"
#include "kernels/cpu/simd.h"
#include "kernels/operand_check.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

bool Empty(const AttentionShape& s) {
  return s.tokens == 0 || s.heads == 0 || s.head_width == 0;
}

// One head's keys, say, in the scratch of a thread.
int64_t PanelFloats(const AttentionShape& s) {
  return s.head_width * PaddedLength(s.max_length);
}
// A thread's scratch: panels of the keys, the values, their transposes and
// their gradients, and what a head needs.
constexpr int64_t kPanels = 5;
int64_t ThreadFloats(const AttentionShape& s) {
  return kPanels * PanelFloats(s) + HeadScratchFloats(s.max_length);
}

// Heads of queries that share a head of keys.
int64_t GroupSize(const AttentionShape& s) { return s.heads / s.key_heads(); }

// The gradients that all heads of a group but the first have of the keys that
// they share, side by side; those of the values come behind.
int64_t PartColumns(const AttentionShape& s) {
  return (s.heads - s.key_heads()) * s.head_width;
}

// The rows of one sequence, and the width of a head.
struct Rows {
  int64_t first = 0, length = 0;
  int64_t width = 0;

  template <typename T>
  MatrixView<T> Columns(MatrixView<T> m, int64_t column) const {
    return {m.data + first * m.stride + column, length, width, m.stride};
  }
};

// One head of one sequence: its rows and columns of a token matrix.
struct Unit {
  Rows rows;
  int64_t head = 0;
  int64_t key_head = 0;

  template <typename T>
  MatrixView<T> Queries(MatrixView<T> m) const {
    return rows.Columns(m, head * rows.width);
  }
  template <typename T>
  MatrixView<T> Keys(MatrixView<T> m) const {
    return rows.Columns(m, key_head * rows.width);
  }
  // The head's share of the gradient of its keys: the gradient itself, or,
  // where another head of the group writes that, a place among the parts.
  Matrix KeyGradient(Matrix grad, Matrix parts, int64_t group) const {
    const int64_t place = head % group;
    if (place == 0) return Keys(grad);
    return rows.Columns(parts,
                        (key_head * (group - 1) + place - 1) * rows.width);
  }
};

// Runs f(unit, scratch) for every head of every sequence. Units write apart
// from each other, so it does not matter which thread takes which.
template <typename F>
void ForUnits(int threads, const AttentionShape& s, ConstIndices offsets,
              float* scratch, const F& f) {
  const int64_t units = s.sequences * s.heads;
  const int64_t each = ThreadFloats(s), group = GroupSize(s);
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (int64_t i = 0; i < units; ++i) {
    const int64_t first = offsets.data[i / s.heads], head = i % s.heads;
    const int64_t length = offsets.data[i / s.heads + 1] - first;
    const Unit unit = {{first, length, s.head_width}, head, head / group};
    if (length > 0) f(unit, scratch + omp_get_thread_num() * each);
  }
}

// Copies rows that are apart in memory next to each other. Where whole rows of
// tokens are a power of two long, the rows of a head are in a few sets of the
// caches only, which hold no more than some of them at a time.
ConstMatrix Gather(ConstMatrix from, float* panel) {
  for (int64_t i = 0; i < from.rows; ++i) {
    const float* row = from.data + i * from.stride;
    std::copy(row, row + from.cols, panel + i * from.cols);
  }
  return ConstMatrix(panel, from.rows, from.cols);
}
void Scatter(const float* panel, Matrix to) {
  for (int64_t i = 0; i < to.rows; ++i) {
    const float* row = panel + i * to.cols;
    std::copy(row, row + to.cols, to.data + i * to.stride);
  }
}

COMERA_CLONES
void AddRun(const float* __restrict from, float* __restrict to, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

// Adds the parts of each group to the gradient of its keys, in order of heads.
void AddParts(int threads, const AttentionShape& s, ConstMatrix parts,
              Matrix grad) {
  const int64_t others = GroupSize(s) - 1, width = s.head_width;
  ParallelRanges(
      threads, s.tokens, parts.cols, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const float* from = parts.data + i * parts.stride;
          float* to = grad.data + i * grad.stride;
          for (int64_t part = 0; part < others * s.key_heads(); ++part) {
            AddRun(from + part * width, to + part / others * width, width);
          }
        }
      });
}

}  // namespace

int64_t CpuBackend::AttentionWorkspaceBytes(const AttentionShape& s) {
  return (threads_ * ThreadFloats(s) + 2 * s.tokens * PartColumns(s)) *
         static_cast<int64_t>(sizeof(float));
}

absl::Status CpuBackend::Attention(const AttentionShape& s,
                                   const DropoutKey& key, ConstIndices offsets,
                                   ConstMatrix q, ConstMatrix k, ConstMatrix v,
                                   float* log_sum, Matrix out,
                                   void* workspace) {
  constexpr char kOp[] = "Attention";
  RETURN_IF_ERROR(
      CheckAttentionOperands(kOp, s, key, offsets, {{"q", q}, {"out", out}},
                             {{"k", k}, {"v", v}}, log_sum, workspace));
  RETURN_IF_ERROR(CheckSequences(kOp, s, offsets));
  if (Empty(s)) return absl::OkStatus();

  const DropoutMask dropout(key);
  const float scale = 1.0f / std::sqrt(static_cast<float>(s.head_width));
  const int64_t panel = PanelFloats(s);
  ForUnits(threads_, s, offsets, static_cast<float*>(workspace),
           [&](const Unit& u, float* keys_t) {
             const int64_t first = u.rows.first, length = u.rows.length;
             const ConstMatrix keys = u.Keys(k);
             TransposePanel(scale, keys.data, keys.stride, length, keys.cols,
                            keys_t, PaddedLength(length));
             const ConstMatrix values = Gather(u.Keys(v), keys_t + panel);
             HeadForward({u.Queries(q), keys_t, s.causal},
                         {dropout, first, s.heads, u.head}, values, false,
                         u.Queries(out), log_sum + u.head * s.tokens + first,
                         keys_t + kPanels * panel);
           });
  return absl::OkStatus();
}

absl::Status CpuBackend::AttentionBackward(
    const AttentionShape& s, const DropoutKey& key, ConstIndices offsets,
    ConstMatrix q, ConstMatrix k, ConstMatrix v, const float* log_sum,
    ConstMatrix, ConstMatrix grad_out, Matrix grad_q, Matrix grad_k,
    Matrix grad_v, void* workspace) {
  constexpr char kOp[] = "AttentionBackward";
  RETURN_IF_ERROR(CheckAttentionOperands(
      kOp, s, key, offsets,
      {{"q", q}, {"grad_out", grad_out}, {"grad_q", grad_q}},
      {{"k", k}, {"v", v}, {"grad_k", grad_k}, {"grad_v", grad_v}}, log_sum,
      workspace));
  RETURN_IF_ERROR(CheckSequences(kOp, s, offsets));
  if (Empty(s)) return absl::OkStatus();

  const DropoutMask dropout(key);
  const float scale = 1.0f / std::sqrt(static_cast<float>(s.head_width));
  const int64_t group = GroupSize(s), part_columns = PartColumns(s);
  float* scratch = static_cast<float*>(workspace);
  const Matrix key_parts(scratch + threads_ * ThreadFloats(s), s.tokens,
                         part_columns);
  const Matrix value_parts(key_parts.data + s.tokens * part_columns, s.tokens,
                           part_columns);
  ForUnits(threads_, s, offsets, scratch, [&](const Unit& u, float* keys_t) {
    const int64_t first = u.rows.first, length = u.rows.length;
    const int64_t padded = PaddedLength(length), panel = PanelFloats(s);
    float* values_t = keys_t + panel;
    float* grad_keys = values_t + 2 * panel;
    float* grad_values = grad_keys + panel;
    const ConstMatrix values = u.Keys(v);
    const ConstMatrix keys = Gather(u.Keys(k), values_t + panel);
    TransposePanel(scale, keys.data, keys.stride, length, keys.cols, keys_t,
                   padded);
    TransposePanel(1, values.data, values.stride, length, values.cols, values_t,
                   padded);
    HeadBackward({u.Queries(q), keys_t, s.causal},
                 {dropout, first, s.heads, u.head}, keys, values_t,
                 log_sum + u.head * s.tokens + first, u.Queries(grad_out),
                 scale,
                 {u.Queries(grad_q), Matrix(grad_keys, length, keys.cols),
                  Matrix(grad_values, length, keys.cols)},
                 grad_values + panel);
    Scatter(grad_keys, u.KeyGradient(grad_k, key_parts, group));
    Scatter(grad_values, u.KeyGradient(grad_v, value_parts, group));
  });
  if (group > 1) {
    AddParts(threads_, s, key_parts, grad_k);
    AddParts(threads_, s, value_parts, grad_v);
  }
  return absl::OkStatus();
}

}  // namespace comera::kernels
