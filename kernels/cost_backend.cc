// Adds up what each operation would cost, by its shapes alone.
#include "kernels/cost_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "kernels/contraction/attention_cost.h"
#include "kernels/contraction/ffn_cost.h"
#include "kernels/gpu_cost.h"
#include "kernels/product_split.h"
#include "kernels/task_levels.h"

namespace comera::kernels {
namespace {

// Rows and columns of products that the GPU's kernel for tall ones takes.
constexpr int64_t kLeastTallRows = 256, kMostTallCols = 32,
                  kLeastTallInner = 64;

// How an operation runs on a GPU, as kernels/cuda enqueues it.
struct GpuForm {
  GpuWork::Kind kind = GpuWork::kPass;
  double launches = 1;
};
GpuForm FormOf(absl::string_view name) {
  struct Known {
    absl::string_view name;
    GpuForm form;
  };
  constexpr Known kKnown[] = {
      {"Attention", {GpuWork::kFused, 1}},
      {"AttentionBackward", {GpuWork::kFused, 2}},
      {"AttentionBackwardBf16", {GpuWork::kFused, 2}},
      {"AttentionBf16", {GpuWork::kFused, 1}},
      {"BiasGradient", {GpuWork::kPass, 2}},
      {"CachedAttention", {GpuWork::kFused, 1}},
      {"ExpandLayerNorm", {GpuWork::kFused, 1}},
      {"ExpandLayerNormBackward", {GpuWork::kFused, 2}},
      {"ProjectBackward", {GpuWork::kFused, 2}},
      {"RankSpaceAttention", {GpuWork::kFused, 2}},
      {"RankSpaceAttentionBackward", {GpuWork::kFused, 4}},
      {"RankSpaceFfn", {GpuWork::kFused, 2}},
      {"RankSpaceFfnBackward", {GpuWork::kFused, 3}},
      {"ResidualLayerNormBackward", {GpuWork::kPass, 3}},
      {"ResidualLayerNormBackwardBf16", {GpuWork::kPass, 3}},
      {"RmsNormBackward", {GpuWork::kPass, 3}},
      {"ScatterAddRows", {GpuWork::kPass, 6}},
      {"SigmoidCrossEntropy", {GpuWork::kPass, 2}},
      {"SoftmaxCrossEntropy", {GpuWork::kPass, 2}},
      {"SumOfSquares", {GpuWork::kPass, 2}},
      {"TallProduct", {GpuWork::kFused, 1}},
      {"TtmLookup", {GpuWork::kScalar, 1}},
      {"TtmLookupBackward", {GpuWork::kScalar, 3}},
  };
  for (const Known& known : kKnown) {
    if (known.name == name) return known.form;
  }
  return {};
}

ConstMatrix Row(ConstVector x) { return ConstMatrix(x.data, 1, x.size); }

bool IsOff16Bytes(ConstMatrix a, ConstMatrix b, ConstMatrix c) {
  return !OnVectors(a) || !OnVectors(b) || !OnVectors(c);
}

// Simple elements of work that one operation reads and writes, in floats.
template <typename T>
double Size(MatrixView<T> m) {
  return static_cast<double>(m.rows) * static_cast<double>(m.cols);
}

class CostBackend final : public Backend {
 public:
  CostBackend(Backend* sizes, const MachineSpeed& speed, OperationCosts* costs)
      : sizes_(sizes), speed_(speed), costs_(costs) {
    ForgetTasks();
  }
  ~CostBackend() override {
    for (const auto& [memory, bytes] : allocations_) munmap(memory, bytes);
  }

  // --- memory
  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    if (bytes < 0) return absl::InvalidArgumentError("Allocate: negative size");
    if (costs_->memory_limit_bytes > 0 &&
        bytes > costs_->memory_limit_bytes - costs_->allocated_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot allocate ", bytes, " bytes"));
    }
    const size_t size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
    // Not writable, so that a limit on the process's data does not count it.
    void* memory = mmap(nullptr, size, PROT_READ,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot reserve ", bytes, " bytes of addresses"));
    }
    allocations_[memory] = size;
    costs_->allocated_bytes += static_cast<int64_t>(size);
    costs_->most_allocated_bytes =
        std::max(costs_->most_allocated_bytes, costs_->allocated_bytes);
    return memory;
  }
  void Free(void* memory) override {
    const auto found = allocations_.find(memory);
    if (found == allocations_.end()) return;
    costs_->allocated_bytes -= static_cast<int64_t>(found->second);
    munmap(memory, found->second);
    allocations_.erase(found);
  }
  absl::Status CopyToDevice(void*, const void*, int64_t bytes) override {
    return Move("Copy", bytes / 2.0);
  }
  absl::Status CopyToHost(void* to, const void*, int64_t bytes) override {
    if (bytes > 0) std::memset(to, 0, bytes);
    return Move("Copy", bytes / 2.0);
  }
  absl::Status Copy(void* to, const void* from, int64_t bytes) override {
    const int64_t size = bytes / int64_t{sizeof(float)};
    if (depth_ > 0) {
      return Task(2.0 * size, {Row({static_cast<const float*>(from), size})},
                  {Row({static_cast<float*>(to), size})});
    }
    return Move("Copy", bytes / 2.0);
  }
  absl::Status Fill(Vector x, float) override {
    if (depth_ > 0) return Task(x.size, {}, {Row(x)});
    return Move("Fill", x.size);
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }
  // Addresses are all that is given.
  absl::StatusOr<int64_t> FreeBytes() override { return INT64_MAX; }

  // --- many small operations
  absl::Status BeginTogether() override {
    if (speed_.gpu) ++depth_;
    return absl::OkStatus();
  }
  absl::Status EndTogether() override {
    if (!speed_.gpu || --depth_ > 0) return absl::OkStatus();
    GpuWork scalar = scalar_tasks_, tensor = tensor_tasks_;
    for (const auto& [level, launches] : busy_levels_) {
      scalar.launches += static_cast<double>(launches.launches());
    }
    ForgetTasks();
    levels_.Clear();
    if (scalar.launches == 0) return absl::OkStatus();
    RETURN_IF_ERROR(AddGpu("Together", scalar));
    // In the same launches.
    return tensor.multiply_adds > 0 ? AddGpu("TogetherProducts", tensor)
                                    : absl::OkStatus();
  }

  // --- linear algebra
  absl::Status Gemm(bool transpose_a, bool transpose_b, float, ConstMatrix a,
                    ConstMatrix b, float beta, Matrix c) override {
    const double k = static_cast<double>(transpose_a ? a.rows : a.cols);
    if (speed_.gpu) {
      const bool plain = !transpose_a && !transpose_b && beta == 0;
      return GpuGemm(plain, a, b, k, c);
    }
    OperationCosts::Entry work;
    work.multiply_adds = Size(c) * k;
    return Add("Gemm", work,
               GemmSeconds(speed_, static_cast<double>(c.rows),
                           static_cast<double>(c.cols), k));
  }
  // The bias is added in the epilogue.
  absl::Status GemmBias(bool transpose_b, ConstMatrix a, ConstMatrix b,
                        ConstVector bias, Matrix c) override {
    if (speed_.gpu && a.cols > 0 && IsSmallProduct(c.rows, c.cols, a.cols)) {
      return GpuGemm(/*plain=*/false, a, b, static_cast<double>(a.cols), c);
    }
    if (!speed_.gpu || IsOff16Bytes(a, b, c)) {
      return Backend::GemmBias(transpose_b, a, b, bias, c);
    }
    return Gemm(false, transpose_b, 1, a, b, 0, c);
  }
  absl::Status Axpy(float, ConstVector x, Vector y) override {
    if (depth_ > 0) return Task(3.0 * x.size, {Row(x)}, {Row(y)});
    return Move("Axpy", 3.0 * x.size);
  }
  absl::Status Scale(float, Vector x) override {
    return Move("Scale", 2.0 * x.size);
  }
  absl::Status ScaleByCount(float, const float*, Vector x) override {
    return Move("Scale", 2.0 * x.size);
  }
  absl::Status AddBias(ConstVector, Matrix y) override {
    return Move("AddBias", 2 * Size(y));
  }
  absl::Status BiasGradient(ConstMatrix grad_y, Vector) override {
    return Move("BiasGradient", Size(grad_y));
  }
  absl::Status SwapMiddleAxes(int64_t a, int64_t b, int64_t c, int64_t d,
                              const float*, float*) override {
    return Move("SwapMiddleAxes", 2.0 * a * b * c * d);
  }

  // --- bfloat16 in memory
  bool has_bf16() const override { return speed_.bf16_gain > 0; }
  absl::Status Round(ConstMatrix x, Bf16Matrix y) override {
    if (depth_ > 0) return Task(1.5 * Size(x), {x}, {MemoryOf(y)});
    return Move("Round", 1.5 * Size(x));
  }
  absl::Status Widen(ConstBf16Matrix x, Matrix) override {
    return Move("Widen", 1.5 * Size(x));
  }
  absl::Status GemmBf16(bool transpose_a, bool, ConstBf16Matrix a,
                        ConstBf16Matrix b, float beta, Matrix c) override {
    return GpuGemmBf16("GemmBf16", a, b, transpose_a ? a.rows : a.cols,
                       {c.rows, c.cols, beta == 0 ? 4 : 8}, {});
  }
  absl::Status GemmToBf16(bool transpose_a, bool, ConstBf16Matrix a,
                          ConstBf16Matrix b, float beta, Bf16Matrix c,
                          const ProductBatch& batch) override {
    return GpuGemmBf16("GemmToBf16", a, b, transpose_a ? a.rows : a.cols,
                       {c.rows, c.cols, beta == 0 ? 2 : 4}, batch);
  }
  absl::Status ActivateBf16(Activation f, ConstBf16Matrix x,
                            Bf16Matrix) override {
    return Pointwise("ActivateBf16", Size(x), ValueMath(f) * Size(x));
  }
  absl::Status ActivateBackwardBf16(Activation f, ConstBf16Matrix saved,
                                    ConstBf16Matrix, Bf16Matrix) override {
    return Pointwise("ActivateBackwardBf16", 1.5 * Size(saved),
                     SlopeMath(f) * Size(saved));
  }
  absl::Status ResidualLayerNormBf16(const DropoutKey& key, ConstBf16Matrix x,
                                     ConstBf16Matrix residual, ConstVector,
                                     ConstVector, float, Bf16Matrix, Vector,
                                     Bf16Matrix) override {
    return Norm("ResidualLayerNormBf16", key, Size(x),
                residual.data == nullptr ? 1.5 : 2);
  }
  absl::Status ResidualLayerNormBackwardBf16(const DropoutKey& key,
                                             ConstBf16Matrix grad_y,
                                             ConstBf16Matrix, ConstVector,
                                             ConstVector, Bf16Matrix grad_x,
                                             Bf16Matrix grad_residual, Vector,
                                             Vector) override {
    const double passes = 1 + (grad_x.data == nullptr ? 0 : 0.5) +
                          (grad_residual.data == nullptr ? 0 : 0.5);
    return Norm("ResidualLayerNormBackwardBf16", key, Size(grad_y), passes);
  }
  absl::Status LayerNormOutputBf16(const DropoutKey& key,
                                   ConstBf16Matrix normalised, ConstVector,
                                   ConstVector, Bf16Matrix) override {
    return Norm("LayerNormOutputBf16", key, Size(normalised), 1);
  }
  absl::Status AttentionBf16(const AttentionShape& s, const DropoutKey& key,
                             ConstIndices, ConstBf16Matrix, ConstBf16Matrix,
                             ConstBf16Matrix, float*, Bf16Matrix,
                             void*) override {
    return Heads("AttentionBf16", s, key, 2 * static_cast<double>(s.head_width),
                 0);
  }
  absl::Status AttentionBackwardBf16(const AttentionShape& s,
                                     const DropoutKey& key, ConstIndices,
                                     ConstBf16Matrix, ConstBf16Matrix,
                                     ConstBf16Matrix, const float*,
                                     ConstBf16Matrix, ConstBf16Matrix,
                                     Bf16Matrix, Bf16Matrix, Bf16Matrix,
                                     void*) override {
    return Heads("AttentionBackwardBf16", s, key,
                 5 * static_cast<double>(s.head_width), 0);
  }

  // --- tensor-train cores
  absl::Status FoldCore(ConstMatrix g, ConstVector d, float,
                        Matrix h) override {
    if (depth_ > 0) return Task(2 * Size(g), {g, Row(d)}, {h});
    return Move("FoldCore", 2 * Size(g));
  }
  absl::Status FoldCoreBackward(ConstMatrix g, ConstVector d, float,
                                ConstMatrix grad_h, Matrix grad_g,
                                Vector grad_d) override {
    if (depth_ > 0) {
      RETURN_IF_ERROR(Task(2 * Size(g), {g, Row(d), grad_h}, {Row(grad_d)}));
      return Task(3 * Size(g), {g, Row(d), grad_h}, {grad_g});
    }
    return Move("FoldCoreBackward", 4 * Size(g));
  }
  absl::Status TtmLookup(const TtmTables& t, const float*, const float*,
                         const TtmPairs& pairs, Matrix) override {
    return Lookup("TtmLookup", t, pairs, 1);
  }
  absl::Status TtmLookupBackward(const TtmTables& t, const float*, const float*,
                                 const TtmPairs& pairs, ConstMatrix, float*,
                                 float*) override {
    return Lookup("TtmLookupBackward", t, pairs, 2);
  }

  // --- pointwise and rows
  absl::Status Activate(Activation f, ConstMatrix x, Matrix) override {
    return Pointwise("Activate", 2 * Size(x), ValueMath(f) * Size(x));
  }
  absl::Status ActivateBackward(Activation f, ConstMatrix saved, ConstMatrix,
                                Matrix) override {
    return Pointwise("ActivateBackward", 3 * Size(saved),
                     SlopeMath(f) * Size(saved));
  }
  absl::Status Gated(Activation f, ConstMatrix gate, ConstMatrix,
                     Matrix) override {
    return Pointwise("Gated", 3 * Size(gate), ValueMath(f) * Size(gate));
  }
  // What gives the slope gives the value too.
  absl::Status GatedBackward(Activation f, ConstMatrix gate, ConstMatrix,
                             ConstMatrix, Matrix, Matrix) override {
    return Pointwise("GatedBackward", 5 * Size(gate),
                     SlopeMath(f) * Size(gate));
  }
  absl::Status Dropout(const DropoutKey& key, ConstMatrix x, Matrix) override {
    return Pointwise("Dropout", 2 * Size(x), 0, Drawn(key, Size(x)));
  }
  absl::Status ResidualLayerNorm(const DropoutKey& key, ConstMatrix x,
                                 ConstMatrix residual, ConstVector, ConstVector,
                                 float, Matrix, Vector, Matrix) override {
    return Norm("ResidualLayerNorm", key, Size(x),
                residual.data == nullptr ? 3 : 4);
  }
  absl::Status ResidualLayerNormBackward(const DropoutKey& key,
                                         ConstMatrix grad_y, ConstMatrix,
                                         ConstVector, ConstVector,
                                         Matrix grad_x, Matrix grad_residual,
                                         Vector, Vector) override {
    const double passes = 2 + (grad_x.data == nullptr ? 0 : 1) +
                          (grad_residual.data == nullptr ? 0 : 1);
    return Norm("ResidualLayerNormBackward", key, Size(grad_y), passes);
  }
  absl::Status CopyRows(ConstMatrix from, Matrix to) override {
    if (depth_ > 0) return Task(2 * Size(from), {from}, {to});
    return Move("CopyRows", 2 * Size(from));
  }
  absl::Status GatherRows(ConstMatrix, ConstIndices, Matrix out) override {
    return Move("GatherRows", 2 * Size(out));
  }
  absl::Status SumRows(ConstMatrix table, ConstIndices rows, ConstIndices,
                       Matrix out) override {
    return Move("SumRows", static_cast<double>(rows.size) *
                                   static_cast<double>(table.cols) +
                               Size(out));
  }
  absl::Status ScatterAddRows(ConstMatrix in, ConstIndices, Matrix) override {
    return Move("ScatterAddRows", 3 * Size(in));
  }
  absl::Status PutRows(ConstMatrix in, ConstIndices, Matrix) override {
    return Move("PutRows", 2 * Size(in));
  }

  absl::Status PairwiseInteraction(int64_t vectors, ConstMatrix z,
                                   Matrix) override {
    return Pairs("PairwiseInteraction", vectors, z, 1);
  }
  absl::Status PairwiseInteractionBackward(int64_t vectors, ConstMatrix z,
                                           ConstMatrix, Matrix) override {
    return Pairs("PairwiseInteractionBackward", vectors, z, 2);
  }

  absl::Status LayerNormOutput(const DropoutKey& key, ConstMatrix normalised,
                               ConstVector, ConstVector, Matrix) override {
    return Norm("LayerNormOutput", key, Size(normalised), 2);
  }

  absl::Status RmsNorm(ConstMatrix x, ConstVector, float, Matrix, Vector,
                       Matrix) override {
    return Move("RmsNorm", 3 * Size(x));
  }
  // The gradient of x is read too, being added to.
  absl::Status RmsNormBackward(ConstMatrix grad_y, ConstMatrix, ConstVector,
                               ConstVector, Matrix, Vector) override {
    return Move("RmsNormBackward", 4 * Size(grad_y));
  }
  // A sine and a cosine for every row and pair of columns of a head.
  absl::Status Rotate(int64_t head_width, float, bool, ConstIndices positions,
                      Matrix x) override {
    return Pointwise(
        "Rotate", 2 * Size(x),
        static_cast<double>(positions.size) * static_cast<double>(head_width));
  }

  // --- feed-forward in rank space
  absl::Status RankSpaceFfn(ConstMatrix t1, ConstMatrix b1, ConstMatrix a2,
                            Matrix, void*) override {
    const RankSpaceFfnShape shape = {t1.rows, b1.cols, t1.cols - 1, a2.cols};
    return Tiles("RankSpaceFfn", shape, 1, t1.cols + a2.cols,
                 RankSpaceFfnSeconds(shape, speed_).forward);
  }
  // The hidden layer again, its gradient, and those of both matrices and t1.
  absl::Status RankSpaceFfnBackward(ConstMatrix t1, ConstMatrix b1,
                                    ConstMatrix a2, ConstMatrix, Matrix, Matrix,
                                    Matrix, void*) override {
    const RankSpaceFfnShape shape = {t1.rows, b1.cols, t1.cols - 1, a2.cols};
    return Tiles("RankSpaceFfnBackward", shape, 1, 3 * t1.cols + 2 * a2.cols,
                 RankSpaceFfnSeconds(shape, speed_).backward);
  }

  // --- the residual stream and a branch in rank space
  // The residual, what is normalised, and the output.
  absl::Status ExpandLayerNorm(const DropoutKey& key, ConstMatrix t,
                               ConstMatrix, ConstMatrix residual, ConstVector,
                               ConstVector, float, Matrix, Vector, Matrix,
                               void*) override {
    return Stream("ExpandLayerNorm", key, residual, t.cols, 3);
  }
  absl::Status ExpandLayerNormBackward(const DropoutKey& key, ConstMatrix t,
                                       ConstMatrix, ConstMatrix grad_y,
                                       ConstMatrix, ConstVector, ConstVector,
                                       Matrix, Matrix, Matrix, Vector, Vector,
                                       void*) override {
    return Stream("ExpandLayerNormBackward", key, grad_y, 2 * t.cols - 1, 3);
  }
  absl::Status ProjectBackward(ConstMatrix x, ConstVector, ConstVector,
                               ConstMatrix, ConstMatrix a, Matrix, Matrix,
                               void*) override {
    return Stream("ProjectBackward", {}, x, 2 * a.cols, 3);
  }

  // --- attention
  absl::Status Attention(const AttentionShape& s, const DropoutKey& key,
                         ConstIndices, ConstMatrix, ConstMatrix, ConstMatrix,
                         float*, Matrix, void*) override {
    const double width = static_cast<double>(s.head_width);
    return Heads("Attention", s, key, 2 * width, 0);
  }
  // The scores again, and four products for the gradients.
  absl::Status AttentionBackward(const AttentionShape& s, const DropoutKey& key,
                                 ConstIndices, ConstMatrix, ConstMatrix,
                                 ConstMatrix, const float*, ConstMatrix,
                                 ConstMatrix, Matrix, Matrix, Matrix,
                                 void*) override {
    const double width = static_cast<double>(s.head_width);
    return Heads("AttentionBackward", s, key, 5 * width, 0);
  }
  // Every row sees `most` keys: their number is not to be looked at.
  absl::Status CachedAttention(const CachedAttentionShape& s, ConstIndices,
                               ConstIndices, int64_t most, ConstMatrix q,
                               ConstMatrix keys, ConstMatrix values,
                               Matrix) override {
    const double seen = static_cast<double>(q.rows) * static_cast<double>(most);
    OperationCosts::Entry work;
    work.math = seen * static_cast<double>(s.heads);
    work.multiply_adds =
        work.math * static_cast<double>(s.key_width + s.value_width);
    work.bytes = 4 * seen * static_cast<double>(keys.cols + values.cols);
    const double compute =
        work.multiply_adds / speed_.skinny_rate + work.math / speed_.math_rate;
    return Add("CachedAttention", work,
               speed_.call_seconds +
                   std::max(compute, MoveSeconds(speed_, work.bytes)));
  }
  absl::Status RankSpaceAttention(const RankSpaceAttentionShape& s,
                                  const DropoutKey& key, ConstIndices,
                                  ConstMatrix, ConstMatrix, ConstMatrix,
                                  ConstMatrix, ConstMatrix, float*, Matrix,
                                  void*) override {
    const Ranks r(s);
    return Heads("RankSpaceAttention", s.attention, key, r.k + r.v,
                 r.q * r.k + r.v * r.out);
  }
  absl::Status RankSpaceAttentionBackward(const RankSpaceAttentionShape& s,
                                          const DropoutKey& key, ConstIndices,
                                          ConstMatrix, ConstMatrix, ConstMatrix,
                                          ConstMatrix, ConstMatrix,
                                          const float*, ConstMatrix, Matrix,
                                          Matrix, Matrix, Matrix, Matrix,
                                          void*) override {
    const Ranks r(s);
    return Heads("RankSpaceAttentionBackward", s.attention, key,
                 3 * r.k + 2 * r.v, 3 * (r.q * r.k + r.v * r.out));
  }

  // --- what only depends on the real backend
  bool in_host_memory() const override {
    return !speed_.gpu && sizes_->in_host_memory();
  }
#define WORKSPACE_BYTES(name, parameters, arguments) \
  int64_t name parameters override { return sizes_->name arguments; }
#include "kernels/backend_operations.def"

  // --- loss
  absl::Status SoftmaxCrossEntropy(ConstMatrix logits, ConstIndices,
                                   Matrix grad_logits, float*) override {
    return Pointwise("SoftmaxCrossEntropy",
                     (grad_logits.data == nullptr ? 1 : 3) * Size(logits),
                     Size(logits));
  }

  absl::Status SigmoidCrossEntropy(ConstMatrix logits, ConstIndices, Matrix,
                                   float*) override {
    return Pointwise("SigmoidCrossEntropy", 2 * Size(logits), 2 * Size(logits));
  }

  // --- optimiser
  absl::Status SumOfSquares(ConstVector x, float*) override {
    return Move("SumOfSquares", x.size);
  }
  absl::Status AdamW(const AdamWStep&, absl::Span<const AdamWSegment> segments,
                     Vector, ConstVector, Vector, Vector) override {
    double moved = 0;
    for (const AdamWSegment& segment : segments) {
      // Nearly all rows of a table stay: only their gradients are read.
      moved += (segment.row_size > 0 ? 1.0 : 7.0) *
               static_cast<double>(segment.size);
    }
    return Move("AdamW", moved);
  }
  absl::Status OrthogonalStep(const OrthogonalRule&,
                              absl::Span<const OrthogonalSegment> segments,
                              Vector, ConstVector, Vector, void*) override {
    OperationCosts::Entry work;
    for (const OrthogonalSegment& s : segments) {
      const double k = static_cast<double>(std::min(s.rows, s.cols));
      const double n = static_cast<double>(std::max(s.rows, s.cols));
      // Five iterations of T^T T, its square, and the product with T.
      work.multiply_adds += 5 * (2 * k * k * n + k * k * k);
      work.bytes += 4 * 6 * k * n;
    }
    return Add(
        "OrthogonalStep", work,
        speed_.call_seconds + std::max(work.multiply_adds / speed_.skinny_rate,
                                       MoveSeconds(speed_, work.bytes)));
  }
  absl::Status BondNorms(ConstVector, absl::Span<const BondSpan> bonds, float,
                         float*, float*) override {
    return Move("BondNorms", Entries(bonds));
  }
  absl::Status RelaxedSizeGradient(const SizeBond*, int64_t count, const float*,
                                   const float*, float, float*) override {
    return Move("RelaxedSizeGradient", 10.0 * count);
  }
  absl::Status AddBondGradient(ConstVector, absl::Span<const BondSpan> bonds,
                               const float*, float, Vector) override {
    return Move("AddBondGradient", 3 * Entries(bonds));
  }

 private:
  // All functions but ReLU and the identity need an exp, erf or tanh.
  static double ValueMath(Activation f) {
    return f == Activation::kRelu || f == Activation::kIdentity ? 0 : 1;
  }
  // The slopes of tanh and ReLU follow from their outputs.
  static double SlopeMath(Activation f) {
    if (f == Activation::kGelu) return 2;
    return f == Activation::kSilu || f == Activation::kGeluTanh ? 1 : 0;
  }

  static double Drawn(const DropoutKey& key, double elements) {
    return key.rate > 0 ? elements : 0;
  }
  static double Entries(absl::Span<const BondSpan> bonds) {
    double entries = 0;
    for (const BondSpan& bond : bonds)
      entries += static_cast<double>(bond.size);
    return entries;
  }

  absl::Status Add(const char* name, OperationCosts::Entry work,
                   double seconds) {
    if (speed_.gpu) {
      const GpuForm form = FormOf(name);
      GpuWork on_gpu;
      on_gpu.kind = form.kind;
      on_gpu.launches = form.launches;
      on_gpu.multiply_adds = work.multiply_adds;
      on_gpu.bytes = work.bytes;
      on_gpu.functions = work.math + work.random;
      seconds = GpuSeconds(on_gpu, speed_);
      work.launches = form.launches;
      ++costs_->gpu_works[{name, on_gpu}];
    }
    for (OperationCosts::Entry* to : {&costs_->by_name[name], &costs_->total}) {
      ++to->calls;
      to->multiply_adds += work.multiply_adds;
      to->bytes += work.bytes;
      to->math += work.math;
      to->random += work.random;
      to->seconds += seconds;
      to->launches += work.launches;
    }
    return absl::OkStatus();
  }

  absl::Status AddGpu(const char* name, const GpuWork& work) {
    ++costs_->gpu_works[{name, work}];
    for (OperationCosts::Entry* to : {&costs_->by_name[name], &costs_->total}) {
      ++to->calls;
      to->multiply_adds += work.multiply_adds;
      to->bytes += work.bytes;
      to->seconds += GpuSeconds(work, speed_);
      to->launches += work.launches;
    }
    return absl::OkStatus();
  }

  // `plain`: neither operand is transposed, and the old c is not read.
  absl::Status GpuGemm(bool plain, ConstMatrix a, ConstMatrix b, double k,
                       Matrix c) {
    const auto m = static_cast<double>(c.rows), n = static_cast<double>(c.cols);
    GpuWork work;
    work.kind = GpuWork::kProduct;
    work.multiply_adds = m * n * k;
    work.bytes = 4 * (Size(a) + Size(b) + Size(c));
    work.side = std::min({m, n, k});
    work.misaligned = IsOff16Bytes(a, b, c);
    const auto inner = static_cast<int64_t>(k);
    if (depth_ > 0) {
      const int level = levels_.Add(std::initializer_list<ConstMatrix>{a, b},
                                    std::initializer_list<ConstMatrix>{c});
      const ProductPath path = PathOf(c.rows, c.cols, inner);
      if (path != ProductPath::kAlone) {
        busy_levels_[level].Add(SplitProduct(path, c.rows, c.cols, inner));
        if (path == ProductPath::kFloat32) {
          scalar_tasks_.multiply_adds += work.multiply_adds;
        } else {
          tensor_tasks_.multiply_adds += work.multiply_adds;
          tensor_tasks_.bytes += work.bytes;
        }
        return absl::OkStatus();
      }
    }
    if (plain && c.rows >= kLeastTallRows && c.cols <= kMostTallCols &&
        a.cols >= kLeastTallInner && a.cols % 16 == 0 && a.stride % 2 == 0) {
      work.kind = GpuWork::kFused;
      work.misaligned = false;
      return AddGpu("TallProduct", work);
    }
    if (IsSmallProduct(c.rows, c.cols, inner)) {
      // By few blocks, in float32 as on tensor cores.
      work.kind = GpuWork::kFused;
      work.misaligned = false;
      return AddGpu("SmallProduct", work);
    }
    return AddGpu("Gemm", work);
  }

  // A result of so many rows, columns, and bytes that an element takes, read
  // and written.
  struct Bf16Result {
    int64_t rows, cols, bytes;
  };
  absl::Status GpuGemmBf16(const char* name, ConstBf16Matrix a,
                           ConstBf16Matrix b, int64_t k, Bf16Result c,
                           const ProductBatch& batch) {
    const auto m = static_cast<double>(c.rows), n = static_cast<double>(c.cols);
    GpuWork work;
    work.kind = GpuWork::kBf16Product;
    const auto count = static_cast<double>(batch.count);
    work.multiply_adds = count * m * n * static_cast<double>(k);
    // What all products read comes from memory once.
    work.bytes = 2 * Size(a) * (batch.a_step == 0 ? 1 : count) +
                 2 * Size(b) * (batch.b_step == 0 ? 1 : count) +
                 static_cast<double>(c.bytes) * count * m * n;
    work.side = std::min({m, n, static_cast<double>(k)});
    return AddGpu(name, work);
  }

  // A small operation among others, of so many floats read or written.
  absl::Status Task(double floats, std::initializer_list<ConstMatrix> reads,
                    std::initializer_list<ConstMatrix> writes) {
    busy_levels_[levels_.Add(reads, writes)].Add({});
    scalar_tasks_.bytes += 4 * floats;
    return absl::OkStatus();
  }
  void ForgetTasks() {
    scalar_tasks_ = tensor_tasks_ = GpuWork();
    scalar_tasks_.kind = GpuWork::kScalar;
    tensor_tasks_.kind = GpuWork::kFused;
    scalar_tasks_.launches = tensor_tasks_.launches = 0;
    busy_levels_.clear();
  }

  // `floats` read or written, some of them passed through a function or
  // multiplied with random numbers.
  absl::Status Pointwise(const char* name, double floats, double math,
                         double random = 0) {
    OperationCosts::Entry work;
    work.bytes = 4 * floats;
    work.math = math;
    work.random = random;
    const double memory = MoveSeconds(speed_, work.bytes);
    const double compute =
        math / speed_.math_rate + random / speed_.random_rate;
    // The processor waits for memory or memory for it.
    return Add(name, work, speed_.call_seconds + std::max(memory, compute));
  }
  // So many passes over a matrix of `elements`, counted in floats.
  absl::Status Norm(const char* name, const DropoutKey& key, double elements,
                    double passes) {
    return Pointwise(name, passes * elements, 0, Drawn(key, elements));
  }
  absl::Status Move(const char* name, double floats) {
    return Pointwise(name, floats, 0);
  }

  // A hidden layer that stays in cache: multiply-adds and functions of each of
  // its elements.
  absl::Status Tiles(const char* name, const RankSpaceFfnShape& shape,
                     int64_t math, int64_t products, double seconds) {
    OperationCosts::Entry work;
    const double hidden =
        static_cast<double>(shape.rows) * static_cast<double>(shape.width);
    work.multiply_adds = static_cast<double>(products) * hidden;
    work.math = static_cast<double>(math) * hidden;
    return Add(name, work, seconds);
  }

  // So many multiply-adds per element of the residual stream, and passes over
  // it, with products that stay in cache.
  absl::Status Stream(const char* name, const DropoutKey& key, ConstMatrix rows,
                      int64_t products, double passes) {
    OperationCosts::Entry work;
    work.multiply_adds = static_cast<double>(products) * Size(rows);
    work.bytes = 4 * passes * Size(rows);
    work.random = Drawn(key, Size(rows));
    const double compute = work.multiply_adds / speed_.square_rate +
                           work.random / speed_.random_rate;
    return Add(name, work,
               speed_.call_seconds +
                   std::max(compute, MoveSeconds(speed_, work.bytes)));
  }

  // Products of every pair among the vectors of a row.
  absl::Status Pairs(const char* name, int64_t vectors, ConstMatrix z,
                     int products) {
    OperationCosts::Entry work;
    work.multiply_adds = products * Size(z) * static_cast<double>(vectors) / 2;
    work.bytes = 8 * products * Size(z);
    return Add(
        name, work,
        speed_.call_seconds + std::max(work.multiply_adds / speed_.skinny_rate,
                                       MoveSeconds(speed_, work.bytes)));
  }

  // A pair moves its result; blocks stay in cache while they are in use.
  absl::Status Lookup(const char* name, const TtmTables& t,
                      const TtmPairs& pairs, int products) {
    OperationCosts::Entry work;
    const double results = static_cast<double>(pairs.out.size) *
                           static_cast<double>(t.left_outer * t.left_inner) *
                           static_cast<double>(t.right_cols);
    work.multiply_adds = products * results * static_cast<double>(t.rank);
    work.bytes = 4 * products * results;
    return Add(
        name, work,
        speed_.call_seconds + std::max(work.multiply_adds / speed_.skinny_rate,
                                       MoveSeconds(speed_, work.bytes)));
  }

  // Widths of rank-space vectors, with their ones.
  struct Ranks {
    explicit Ranks(const RankSpaceAttentionShape& s)
        : q(static_cast<double>(s.query_rank) + 1),
          k(static_cast<double>(s.key_rank) + 1),
          v(static_cast<double>(s.value_rank) + 1),
          out(static_cast<double>(s.output_rank)) {}
    double q, k, v, out;
  };

  // Sequences of the greatest length: `per_score` multiply-adds for every head,
  // query and key, `per_token` for every head and token.
  absl::Status Heads(const char* name, const AttentionShape& s,
                     const DropoutKey& key, double per_score,
                     double per_token) {
    const double tokens =
        static_cast<double>(s.heads) * static_cast<double>(s.tokens);
    const double scores = tokens * KeysOfAQuery(s);
    OperationCosts::Entry work;
    work.multiply_adds = scores * per_score + tokens * per_token;
    work.math = scores;
    work.random = Drawn(key, scores);
    return Add(name, work,
               speed_.call_seconds + work.multiply_adds / speed_.skinny_rate +
                   work.math / speed_.math_rate +
                   work.random / speed_.random_rate);
  }

  Backend* const sizes_;
  const MachineSpeed speed_;
  OperationCosts* const costs_;
  std::unordered_map<void*, size_t> allocations_;
  // On a GPU: what runs together, by the levels that launch something.
  int depth_ = 0;
  TaskLevels levels_;
  std::map<int, GroupedLaunches> busy_levels_;
  GpuWork scalar_tasks_, tensor_tasks_;
};

}  // namespace

void OperationCosts::Clear() {
  by_name.clear();
  gpu_works.clear();
  total = Entry();
}

std::unique_ptr<Backend> CreateCostBackend(Backend* sizes,
                                           const MachineSpeed& speed,
                                           OperationCosts* costs) {
  return std::make_unique<CostBackend>(sizes, speed, costs);
}

}  // namespace comera::kernels
