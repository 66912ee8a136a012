// Formula: t2 = gelu(t1 b1) a2.
// Shapes: t1 (rows, up_rank + 1), b1 (up_rank + 1, width), a2 (width,
// down_rank), t2 (rows, down_rank).
// Threads: the kernel that owns tokens (device/rank_space_ffn_tokens.h) keeps
// the hidden layer in registers; where ranks are too large for it, some rows at
// a time have their hidden layer in the workspace.
#include "common/status_macros.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/rank_space_ffn_tokens.h"
#include "kernels/cuda/precision_switch.h"
#include "kernels/cuda/rank_space_ffn_split.h"
#include "kernels/cuda/shared_memory.h"
#include "kernels/cuda/sum_parts.h"
#include "kernels/shape_check.h"

namespace comera::kernels {

int64_t CudaBackend::RankSpaceFfnWorkspaceBytes(
    const RankSpaceFfnShape& shape) {
  return RankSpaceFfnSplit(shape).bytes();
}

absl::Status CudaBackend::RankSpaceFfn(ConstMatrix t1, ConstMatrix b1,
                                       ConstMatrix a2, Matrix t2,
                                       void* workspace) {
  constexpr char kOp[] = "RankSpaceFfn";
  RETURN_IF_ERROR(CheckRankSpaceFfn(kOp, t1, b1, a2));
  RETURN_IF_ERROR(CheckMatrix(kOp, "t2", t2, t1.rows, a2.cols));
  const RankSpaceFfnSplit split({t1.rows, b1.cols, t1.cols - 1, a2.cols});
  RETURN_IF_ERROR(CheckMemory(kOp, "workspace", workspace, split.bytes()));
  if (t2.rows == 0 || t2.cols == 0) return absl::OkStatus();
  float* floats = static_cast<float*>(workspace);

  if (!split.fused()) {
    for (int64_t i = 0; i < t1.rows; i += RankSpaceFfnSplit::kHiddenRows) {
      const int64_t n = std::min(RankSpaceFfnSplit::kHiddenRows, t1.rows - i);
      const Matrix hidden(floats, n, b1.cols);
      RETURN_IF_ERROR(Gemm(false, false, 1, Rows(t1, i, n), b1, 0, hidden));
      RETURN_IF_ERROR(Activate(Activation::kGelu, hidden, hidden));
      RETURN_IF_ERROR(Gemm(false, false, 1, hidden, a2, 0, Rows(t2, i, n)));
    }
    return absl::OkStatus();
  }
  return SwitchPrecision(options_.precision, [&](auto precision) {
    return SwitchTiles(split.rank_tiles(), [&](auto tiles) {
      using Shape = FfnTokensShape<precision.value, tiles.value, false>;
      static_assert(Shape::kBytes <= kLeastSharedBytes);
      const int64_t parts = split.parts(Shape::kRows);
      FfnTokens p = {};
      p.t1 = ViewOf(t1);
      p.b1 = ViewOf(b1);
      p.a2 = ViewOf(a2);
      p.cols = static_cast<int>(t2.cols);
      p.blocks = static_cast<int>(split.blocks());
      p.blocks_of_part = static_cast<int>(split.blocks_of_part(Shape::kRows));
      const Matrix out = parts == 1 ? t2 : Matrix(floats, t2.rows, t2.cols);
      p.out = out.data;
      p.stride = out.stride;
      p.part_floats = t2.rows * t2.cols;
      RETURN_IF_ERROR(Launch(
          kOp,
          this->Shape(
              {Blocks(t1.rows, Shape::kRows), static_cast<unsigned>(parts)},
              Shape::kThreads, Shape::kBytes),
          FfnTokensKernel<precision.value, tiles.value, false>, p));
      if (parts == 1) return absl::OkStatus();
      return SumParts(stream_, {{floats, parts, p.part_floats, false, t2}});
    });
  });
}

}  // namespace comera::kernels
