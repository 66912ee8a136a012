// Computes attention between rank vectors, and its gradients.
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
#include "kernels/cpu/rank_space_units.h"
#include "kernels/cpu/simd.h"
#include "kernels/shape_check.h"

// With queries q~ C_h / sqrt(head_width), keys k~ for every head alike and
// values v~ E_h this is attention whose heads' outputs add up, so only what is
// around the core (attention_core.h) is here.
namespace comera::kernels {
namespace {

using Shape = RankSpaceAttentionShape;

// Widths of the operands, and the same in whole vectors.
struct Widths {
  explicit Widths(const Shape& s)
      : q(s.query_rank + 1),
        k(s.key_rank + 1),
        v(s.value_rank + 1),
        o(s.output_rank),
        pq(PaddedLength(q)),
        pk(PaddedLength(k)),
        pv(PaddedLength(v)),
        po(PaddedLength(o)) {}
  const int64_t q, k, v, o;
  const int64_t pq, pk, pv, po;
};

// Hands out parts of the workspace; with a null base it measures.
class Carver {
 public:
  explicit Carver(float* base) : base_(base) {}
  float* Take(int64_t floats) {
    float* part = base_ == nullptr ? nullptr : base_ + used_;
    used_ += PaddedLength(floats);
    return part;
  }
  int64_t used() const { return used_; }

 private:
  float* base_;
  int64_t used_ = 0;
};

// What all units share: factors in whole vectors, and partial sums. Results
// over tokens by group of heads, gradients of C and E by chunk of sequences.
struct Shared {
  Shared(const Shape& s, const Widths& w, int64_t partial_rows, int64_t chunks,
         bool backward, Carver* carver) {
    const int64_t heads = s.attention.heads;
    c = carver->Take(heads * w.q * w.pk);
    if (!backward) {
      e = carver->Take(heads * w.v * w.po);
      out = carver->Take(partial_rows * w.po);
      return;
    }
    c_t = carver->Take(heads * w.k * w.pq);
    e_t = carver->Take(heads * w.o * w.pv);
    grad_q = carver->Take(partial_rows * w.pq);
    grad_k = carver->Take(partial_rows * w.pk);
    grad_v = carver->Take(partial_rows * w.pv);
    grad_c = carver->Take(chunks * heads * w.q * w.pk);
    grad_e = carver->Take(chunks * heads * w.v * w.po);
  }
  float *c = nullptr, *e = nullptr, *c_t = nullptr, *e_t = nullptr;
  float *out = nullptr, *grad_q = nullptr, *grad_k = nullptr;
  float *grad_v = nullptr, *grad_c = nullptr, *grad_e = nullptr;
};

// One thread's memory for one sequence.
struct Local {
  Local(const Widths& w, int64_t length, bool backward, Carver* carver) {
    const int64_t padded = PaddedLength(length);
    keys_t = carver->Take(w.k * padded);
    queries = carver->Take(length * w.pk);
    if (!backward) {
      values = carver->Take(length * w.po);
    } else {
      keys = carver->Take(length * w.pk);
      v_t = carver->Take(w.v * padded);
      values_t = carver->Take(w.o * padded);
      grad_out = carver->Take(length * w.po);
      grad_queries = carver->Take(length * w.pk);
      grad_values = carver->Take(length * w.po);
    }
    head = carver->Take(HeadScratchFloats(length));
  }
  float *keys_t, *queries, *head;
  float *values = nullptr, *keys = nullptr, *v_t = nullptr;
  float *values_t = nullptr, *grad_out = nullptr;
  float *grad_queries = nullptr, *grad_values = nullptr;
};

int64_t LocalFloats(const Shape& s, const Widths& w, bool backward) {
  Carver carver(nullptr);
  Local(w, s.attention.max_length, backward, &carver);
  return carver.used();
}

int64_t WorkspaceFloats(const Shape& s, int threads, bool backward) {
  const Widths w(s);
  Carver carver(nullptr);
  Shared(s, w, RankSpaceUnits::MaxPartialRows(s.attention),
         std::min(s.attention.sequences, RankSpaceUnits::kUnits), backward,
         &carver);
  return carver.used() + threads * LocalFloats(s, w, backward);
}

float ScoreScale(const Shape& s) {
  const auto width = static_cast<float>(s.attention.head_width);
  return width > 0 ? 1.0f / std::sqrt(width) : 0.0f;
}

// Rows of `rows` tokens from `first` on.
ConstMatrix Rows(ConstMatrix m, int64_t first, int64_t rows) {
  return {m.data + first * m.stride, rows, m.cols, m.stride};
}

// C (scaled) and, as the pass needs them, E or both transposed.
void PackFactors(const Shape& s, const Widths& w, ConstMatrix c, ConstMatrix e,
                 bool backward, const Shared& to) {
  const float scale = ScoreScale(s);
  for (int64_t h = 0; h < s.attention.heads; ++h) {
    const float* c_h = c.data + h * w.q * c.stride;
    const float* e_h = e.data + h * w.v * e.stride;
    PadPanel(scale, c_h, c.stride, w.q, w.k, to.c + h * w.q * w.pk, w.pk);
    if (!backward) {
      PadPanel(1, e_h, e.stride, w.v, w.o, to.e + h * w.v * w.po, w.po);
      continue;
    }
    TransposePanel(scale, c_h, c.stride, w.q, w.k, to.c_t + h * w.k * w.pq,
                   w.pq);
    TransposePanel(1, e_h, e.stride, w.v, w.o, to.e_t + h * w.o * w.pv, w.pv);
  }
}

COMERA_CLONES
void SumParts(const float* __restrict parts, int64_t part_stride, int64_t count,
              float scale, float* __restrict out, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    float sum = 0;
    for (int64_t p = 0; p < count; ++p) sum += parts[p * part_stride + j];
    out[j] = scale * sum;
  }
}

// out = scale * the sum of `count` matrices of its rows, `width` floats each.
void ReduceParts(int threads, const float* parts, int64_t count, int64_t width,
                 float scale, Matrix out) {
  ParallelRanges(threads, out.rows, count * out.cols,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     SumParts(parts + i * width, out.rows * width, count, scale,
                              out.data + i * out.stride, out.cols);
                   }
                 });
}

// Calls f(chunk, group, memory of the thread) for every unit.
template <typename F>
void ForUnits(int threads, const RankSpaceUnits& units, float* scratch,
              int64_t each, const F& f) {
  const int64_t count = units.units();
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (int64_t i = 0; i < count; ++i) {
    f(i / units.groups(), i % units.groups(),
      scratch + omp_get_thread_num() * each);
  }
}

absl::Status Check(const char* op, const Shape& s, const Widths& w,
                   const DropoutKey& key, ConstIndices offsets, ConstMatrix q,
                   ConstMatrix k, ConstMatrix v, ConstMatrix c, ConstMatrix e,
                   const float* log_sum, const void* workspace) {
  const AttentionShape& a = s.attention;
  RETURN_IF_ERROR(CheckAttention(op, a, offsets));
  RETURN_IF_ERROR(CheckEncoderAttention(op, a));
  RETURN_IF_ERROR(CheckDropout(op, key));
  RETURN_IF_ERROR(CheckMatrix(op, "q", q, a.tokens, w.q));
  RETURN_IF_ERROR(CheckMatrix(op, "k", k, a.tokens, w.k));
  RETURN_IF_ERROR(CheckMatrix(op, "v", v, a.tokens, w.v));
  RETURN_IF_ERROR(CheckMatrix(op, "c", c, a.heads * w.q, w.k));
  RETURN_IF_ERROR(CheckMatrix(op, "e", e, a.heads * w.v, w.o));
  RETURN_IF_ERROR(CheckMemory(op, "log_sum", log_sum, a.heads * a.tokens));
  RETURN_IF_ERROR(CheckMemory(op, "workspace", workspace, a.tokens));
  return CheckSequences(op, a, offsets);
}

// Backward of one sequence, the heads [first_head, last_head).
struct SequenceBackward {
  const Shape& s;
  const Widths& w;
  const DropoutMask& dropout;
  const Shared& shared;
  ConstMatrix q, k, v, e, grad_out;
  const float* log_sum;

  void Run(int64_t first, int64_t length, int64_t chunk, int64_t group,
           int64_t first_head, int64_t last_head, const Local& m) const {
    const int64_t padded = PaddedLength(length);
    const int64_t tokens = s.attention.tokens;
    const ConstMatrix q_rows = Rows(q, first, length);
    const ConstMatrix k_rows = Rows(k, first, length);
    const ConstMatrix v_rows = Rows(v, first, length);
    const ConstMatrix g_rows = Rows(grad_out, first, length);
    TransposePanel(1, k_rows.data, k.stride, length, w.k, m.keys_t, padded);
    TransposePanel(1, v_rows.data, v.stride, length, w.v, m.v_t, padded);
    PadPanel(1, k_rows.data, k.stride, length, w.k, m.keys, w.pk);
    PadPanel(1, g_rows.data, grad_out.stride, length, w.o, m.grad_out, w.po);
    const int64_t row = group * tokens + first;
    float* grad_q = shared.grad_q + row * w.pq;
    float* grad_k = shared.grad_k + row * w.pk;
    float* grad_v = shared.grad_v + row * w.pv;
    for (int64_t h = first_head; h < last_head; ++h) {
      const bool add = h > first_head;
      PanelGemm({length, w.pk, w.q, q.stride, 1, w.pk, w.pk}, q_rows.data,
                shared.c + h * w.q * w.pk, false, m.queries);
      PanelGemm({w.o, padded, w.v, 1, e.stride, padded, padded},
                e.data + h * w.v * e.stride, m.v_t, false, m.values_t);
      HeadGradients grads;
      grads.q = Matrix(m.grad_queries, length, w.pk);
      grads.keys = Matrix(grad_k, length, w.pk);
      grads.values = Matrix(m.grad_values, length, w.po);
      grads.accumulate_keys = add;
      HeadBackward({ConstMatrix(m.queries, length, w.k, w.pk), m.keys_t},
                   {dropout, first, s.attention.heads, h},
                   ConstMatrix(m.keys, length, w.k, w.pk), m.values_t,
                   log_sum + h * tokens + first,
                   ConstMatrix(m.grad_out, length, w.o, w.po), 1, grads,
                   m.head);
      PanelGemm({length, w.pq, w.k, w.pk, 1, w.pq, w.pq}, m.grad_queries,
                shared.c_t + h * w.k * w.pq, add, grad_q);
      PanelGemm({length, w.pv, w.o, w.po, 1, w.pv, w.pv}, m.grad_values,
                shared.e_t + h * w.o * w.pv, add, grad_v);
      const int64_t part = chunk * s.attention.heads + h;
      PanelGemm({w.q, w.pk, length, 1, q.stride, w.pk, w.pk}, q_rows.data,
                m.grad_queries, true, shared.grad_c + part * w.q * w.pk);
      PanelGemm({w.v, w.po, length, 1, v.stride, w.po, w.po}, v_rows.data,
                m.grad_values, true, shared.grad_e + part * w.v * w.po);
    }
  }
};

}  // namespace

int64_t CpuBackend::RankSpaceAttentionWorkspaceBytes(const Shape& s) {
  return std::max(WorkspaceFloats(s, threads_, false),
                  WorkspaceFloats(s, threads_, true)) *
         static_cast<int64_t>(sizeof(float));
}

absl::Status CpuBackend::RankSpaceAttention(
    const Shape& s, const DropoutKey& key, ConstIndices offsets, ConstMatrix q,
    ConstMatrix k, ConstMatrix v, ConstMatrix c, ConstMatrix e, float* log_sum,
    Matrix out, void* workspace) {
  constexpr char kOp[] = "RankSpaceAttention";
  const Widths w(s);
  RETURN_IF_ERROR(
      Check(kOp, s, w, key, offsets, q, k, v, c, e, log_sum, workspace));
  const int64_t tokens = s.attention.tokens;
  RETURN_IF_ERROR(CheckMatrix(kOp, "out", out, tokens, w.o));
  if (tokens == 0) return absl::OkStatus();

  const DropoutMask dropout(key);
  const RankSpaceUnits units(s.attention, offsets);
  Carver carver(static_cast<float*>(workspace));
  const Shared shared(s, w, units.groups() * tokens, units.chunks(), false,
                      &carver);
  PackFactors(s, w, c, e, false, shared);
  const auto sequence = [&](int64_t i, int64_t group, float* scratch) {
    const int64_t first = offsets.data[i];
    const int64_t length = offsets.data[i + 1] - first;
    if (length == 0) return;
    Carver local(scratch);
    const Local m(w, length, false, &local);
    const ConstMatrix k_rows = Rows(k, first, length);
    TransposePanel(1, k_rows.data, k.stride, length, w.k, m.keys_t,
                   PaddedLength(length));
    const Matrix to(shared.out + (group * tokens + first) * w.po, length, w.po);
    const int64_t first_head = units.first_head(group);
    for (int64_t h = first_head; h < units.first_head(group + 1); ++h) {
      PanelGemm({length, w.pk, w.q, q.stride, 1, w.pk, w.pk},
                q.data + first * q.stride, shared.c + h * w.q * w.pk, false,
                m.queries);
      PanelGemm({length, w.po, w.v, v.stride, 1, w.po, w.po},
                v.data + first * v.stride, shared.e + h * w.v * w.po, false,
                m.values);
      HeadForward({ConstMatrix(m.queries, length, w.k, w.pk), m.keys_t},
                  {dropout, first, s.attention.heads, h},
                  ConstMatrix(m.values, length, w.po), h > first_head, to,
                  log_sum + h * tokens + first, m.head);
    }
  };
  ForUnits(threads_, units, carver.Take(0), LocalFloats(s, w, false),
           [&](int64_t chunk, int64_t group, float* scratch) {
             for (int64_t i = units.first_sequence(chunk);
                  i < units.first_sequence(chunk + 1); ++i) {
               sequence(i, group, scratch);
             }
           });
  ReduceParts(threads_, shared.out, units.groups(), w.po, 1, out);
  return absl::OkStatus();
}

absl::Status CpuBackend::RankSpaceAttentionBackward(
    const Shape& s, const DropoutKey& key, ConstIndices offsets, ConstMatrix q,
    ConstMatrix k, ConstMatrix v, ConstMatrix c, ConstMatrix e,
    const float* log_sum, ConstMatrix grad_out, Matrix grad_q, Matrix grad_k,
    Matrix grad_v, Matrix grad_c, Matrix grad_e, void* workspace) {
  constexpr char kOp[] = "RankSpaceAttentionBackward";
  const Widths w(s);
  RETURN_IF_ERROR(
      Check(kOp, s, w, key, offsets, q, k, v, c, e, log_sum, workspace));
  const int64_t tokens = s.attention.tokens, heads = s.attention.heads;
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_out", grad_out, tokens, w.o));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_q", grad_q, tokens, s.query_rank));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_k", grad_k, tokens, s.key_rank));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_v", grad_v, tokens, s.value_rank));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_c", grad_c, heads * w.q, w.k));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_e", grad_e, heads * w.v, w.o));

  const DropoutMask dropout(key);
  const RankSpaceUnits units(s.attention, offsets);
  Carver carver(static_cast<float*>(workspace));
  const Shared shared(s, w, units.groups() * tokens, units.chunks(), true,
                      &carver);
  if (tokens > 0) PackFactors(s, w, c, e, true, shared);
  const SequenceBackward backward = {s, w, dropout, shared,   q,
                                     k, v, e,       grad_out, log_sum};
  const auto zero = [](float* parts, int64_t from, int64_t to, int64_t size) {
    std::fill(parts + from * size, parts + to * size, 0.0f);
  };
  if (tokens > 0) {
    ForUnits(threads_, units, carver.Take(0), LocalFloats(s, w, true),
             [&](int64_t chunk, int64_t group, float* scratch) {
               const int64_t first_head = units.first_head(group);
               const int64_t last_head = units.first_head(group + 1);
               zero(shared.grad_c, chunk * heads + first_head,
                    chunk * heads + last_head, w.q * w.pk);
               zero(shared.grad_e, chunk * heads + first_head,
                    chunk * heads + last_head, w.v * w.po);
               for (int64_t i = units.first_sequence(chunk);
                    i < units.first_sequence(chunk + 1); ++i) {
                 const int64_t first = offsets.data[i];
                 const int64_t length = offsets.data[i + 1] - first;
                 if (length == 0) continue;
                 Carver local(scratch);
                 backward.Run(first, length, chunk, group, first_head,
                              last_head, Local(w, length, true, &local));
               }
             });
  }
  const int64_t groups = units.groups();
  const int64_t chunks = tokens > 0 ? units.chunks() : 0;
  ReduceParts(threads_, shared.grad_q, groups, w.pq, 1, grad_q);
  ReduceParts(threads_, shared.grad_k, groups, w.pk, 1, grad_k);
  ReduceParts(threads_, shared.grad_v, groups, w.pv, 1, grad_v);
  ReduceParts(threads_, shared.grad_c, chunks, w.pk, ScoreScale(s), grad_c);
  ReduceParts(threads_, shared.grad_e, chunks, w.po, 1, grad_e);
  return absl::OkStatus();
}

}  // namespace comera::kernels
