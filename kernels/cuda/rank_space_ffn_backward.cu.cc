// Formula: with H = t1 b1 and g = (grad_t2 a2^T) * gelu'(H), grad_t1 = g b1^T,
// grad_b1 += t1^T g, grad_a2 += gelu(H)^T grad_t2.
// Shapes: t1 (rows, up_rank + 1), b1 (up_rank + 1, width), a2 (width,
// down_rank), grad_t2 (rows, down_rank), grad_t1 (rows, up_rank).
// Threads: one kernel owns tokens (device/rank_space_ffn_tokens.h), another one
// hidden units (device/rank_space_ffn_weights.h).
//
// The hidden layer is computed twice: by a kernel that owns tokens, for the
// gradient of T1, and by one that owns hidden units, for the weights'. In one
// kernel either sum would have to be kept in parts outside of registers: of the
// gradient of T1 a part per block of units, 25 MB to write and read for 4,096
// tokens, 3,072 units and rank 30, which takes about as long as computing GELU
// again (12.6 million times 20 instructions), and memory besides.
#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/rank_space_ffn_tokens.h"
#include "kernels/cuda/device/rank_space_ffn_weights.h"
#include "kernels/cuda/precision_switch.h"
#include "kernels/cuda/rank_space_ffn_split.h"
#include "kernels/cuda/shared_memory.h"
#include "kernels/cuda/sum_parts.h"
#include "kernels/shape_check.h"

namespace comera::kernels {

absl::Status CudaBackend::RankSpaceFfnBackward(
    ConstMatrix t1, ConstMatrix b1, ConstMatrix a2, ConstMatrix grad_t2,
    Matrix grad_t1, Matrix grad_b1, Matrix grad_a2, void* workspace) {
  constexpr char kOp[] = "RankSpaceFfnBackward";
  RETURN_IF_ERROR(CheckRankSpaceFfn(kOp, t1, b1, a2));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_t2", grad_t2, t1.rows, a2.cols));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_t1", grad_t1, t1.rows, t1.cols - 1));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_b1", grad_b1, b1.rows, b1.cols));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_a2", grad_a2, a2.rows, a2.cols));
  const RankSpaceFfnSplit split({t1.rows, b1.cols, t1.cols - 1, a2.cols});
  RETURN_IF_ERROR(CheckMemory(kOp, "workspace", workspace, split.bytes()));
  if (t1.rows == 0) return absl::OkStatus();
  float* floats = static_cast<float*>(workspace);

  if (!split.fused()) {
    const ConstMatrix b1_rows = Rows(b1, 0, b1.rows - 1);
    for (int64_t i = 0; i < t1.rows; i += RankSpaceFfnSplit::kHiddenRows) {
      const int64_t n = std::min(RankSpaceFfnSplit::kHiddenRows, t1.rows - i);
      const ConstMatrix t1_tile = Rows(t1, i, n), u2 = Rows(grad_t2, i, n);
      const Matrix before(floats, n, b1.cols);
      const Matrix hidden(floats + n * b1.cols, n, b1.cols);
      RETURN_IF_ERROR(Gemm(false, false, 1, t1_tile, b1, 0, before));
      RETURN_IF_ERROR(Activate(Activation::kGelu, before, hidden));
      RETURN_IF_ERROR(Gemm(true, false, 1, hidden, u2, 1, grad_a2));
      RETURN_IF_ERROR(Gemm(false, true, 1, u2, a2, 0, hidden));
      RETURN_IF_ERROR(
          ActivateBackward(Activation::kGelu, before, hidden, hidden));
      RETURN_IF_ERROR(Gemm(true, false, 1, t1_tile, hidden, 1, grad_b1));
      RETURN_IF_ERROR(
          Gemm(false, true, 1, hidden, b1_rows, 0, Rows(grad_t1, i, n)));
    }
    return absl::OkStatus();
  }
  return SwitchPrecision(options_.precision, [&](auto precision) {
    return SwitchTiles(split.rank_tiles(), [&](auto tiles) -> absl::Status {
      PartialSums tokens;  // none if the kernel writes grad_t1 itself
      if (grad_t1.cols > 0) {
        using Shape = FfnTokensShape<precision.value, tiles.value, true>;
        static_assert(Shape::kBytes <= kLeastSharedBytes);
        const int64_t parts = split.parts(Shape::kRows);
        const Matrix out =
            parts == 1 ? grad_t1 : Matrix(floats, grad_t1.rows, grad_t1.cols);
        FfnTokens p = {};
        p.t1 = ViewOf(t1);
        p.b1 = ViewOf(b1);
        p.a2 = ViewOf(a2);
        p.u2 = ViewOf(grad_t2);
        p.out = out.data;
        p.stride = out.stride;
        p.part_floats = out.rows * out.cols;
        p.cols = static_cast<int>(out.cols);
        p.blocks = static_cast<int>(split.blocks());
        p.blocks_of_part = static_cast<int>(split.blocks_of_part(Shape::kRows));
        RETURN_IF_ERROR(Launch(
            "RankSpaceFfnBackward of tokens",
            this->Shape(
                {Blocks(t1.rows, Shape::kRows), static_cast<unsigned>(parts)},
                Shape::kThreads, Shape::kBytes),
            FfnTokensKernel<precision.value, tiles.value, true>, p));
        if (parts > 1) {
          tokens = {floats, parts, p.part_floats, false, grad_t1};
        }
      }
      if (b1.cols == 0) return absl::OkStatus();  // tokens: one part

      using Shape = FfnWeightsShape<precision.value, tiles.value>;
      static_assert(Shape::kBytes <= kLeastSharedBytes);
      static_assert(Shape::kUnits == RankSpaceFfnSplit::kWeightWidth);
      static_assert(Shape::kTokens == RankSpaceFfnSplit::kTurnRows);
      const int64_t ranges = split.ranges();
      FfnWeights p = {};
      p.t1 = ViewOf(t1);
      p.b1 = ViewOf(b1);
      p.a2 = ViewOf(a2);
      p.u2 = ViewOf(grad_t2);
      p.sums = floats + split.TokenFloats();
      p.range_floats = split.RangeFloats();
      p.range_rows = static_cast<int>((t1.rows + ranges - 1) / ranges);
      RETURN_IF_ERROR(Launch(
          "RankSpaceFfnBackward of weights",
          this->Shape(
              {Blocks(b1.cols, Shape::kUnits), static_cast<unsigned>(ranges)},
              Shape::kThreads, Shape::kBytes),
          FfnWeightsKernel<precision.value, tiles.value>, p));
      return SumParts(stream_, {tokens,
                                {p.sums, ranges, p.range_floats, true, grad_b1},
                                {p.sums + b1.rows * b1.cols, ranges,
                                 p.range_floats, true, grad_a2}});
    });
  });
}

}  // namespace comera::kernels
