// A task is a range of tokens against a group of blocks of the hidden width.
// It keeps a block's weights and a tile of tokens x block in cache:
//
//   for each block of its group:  pack the weights
//     for each tile of its tokens:  hidden = gelu(T1 B1), and the products
//                                   that hidden enters
//
// What a task adds up over hidden units (T2, the gradient of T1) goes to one
// sum per group; what it adds up over tokens (the weights' gradients) to one
// sum per range. How many of each there are depends on the shape alone, so the
// results do not depend on the number of threads.
#include <algorithm>

#include "common/status_macros.h"
#include "kernels/cpu/cpu_backend_impl.h"
#include "kernels/cpu/gelu.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/products/panel_pack.h"
#include "kernels/cpu/products/panel_product.h"
#include "kernels/cpu/simd.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

constexpr int64_t kTileRows = 8 * kPanelRowStep;
constexpr int64_t kLine = 16;  // floats

// How the work is split, and where it lies in the workspace (in floats).
struct Split {
  explicit Split(const RankSpaceFfnShape& s)
      : rows(s.rows),
        width(s.width),
        up(s.up_rank + 1),
        down(s.down_rank),
        up_padded(RoundUp(s.up_rank, kPanelRankStep)),
        down_padded(RoundUp(s.down_rank, kPanelRankStep)),
        blocks((s.width + kPanelWidth - 1) / kPanelWidth) {
    // The split with the most tasks and, among those, the least memory.
    int64_t most = 0, least = 0;
    for (int64_t r = 1; r <= kReductionBlocks; r *= 2) {
      const int64_t g =
          std::min(kReductionBlocks / r, std::max<int64_t>(blocks, 1));
      const int64_t floats = r * WeightFloats() + g * TokenFloats();
      if (r * g < most || (r * g == most && floats >= least)) continue;
      most = r * g;
      least = floats;
      ranges = r;
      groups = g;
    }
    token_sums = 0;
    weight_sums = token_sums + groups * TokenFloats();
    scratch = weight_sums + ranges * WeightFloats();
    // Per thread: the packed weights, the two tiles, and tokens that do not
    // fill a step.
    packed_b1 = 0;
    packed_a2 = packed_b1 + up * kPanelWidth;
    packed_a2t = packed_a2 + down_padded * kPanelWidth;
    packed_b1t = packed_a2t + RoundUp(down * kPanelWidth, kLine);
    hidden = packed_b1t + up_padded * kPanelWidth;
    slope = hidden + kTileRows * kPanelStride;
    edge_t1 = slope + kTileRows * kPanelStride;
    edge_u2 = edge_t1 + RoundUp(kPanelRowStep * up, kLine);
    scratch_floats = edge_u2 + RoundUp(kPanelRowStep * down, kLine);
  }
  // One sum over hidden units: of T2 or of the gradient of T1.
  int64_t TokenFloats() const {
    return RoundUp(rows, kPanelRowStep) * std::max(up_padded, down_padded);
  }
  // One sum over tokens, block by block: of the gradients of B1 and A2^T.
  int64_t BlockFloats() const { return (up + down) * kPanelWidth; }
  int64_t WeightFloats() const { return blocks * BlockFloats(); }
  int64_t bytes(int threads) const {
    return (scratch + threads * scratch_floats) *
           static_cast<int64_t>(sizeof(float));
  }
  int64_t RangeBegin(int64_t range) const {
    const int64_t begin = (rows * range + ranges - 1) / ranges;
    return std::min(rows, RoundUp(begin, kPanelRowStep));
  }
  int64_t GroupBegin(int64_t group) const { return blocks * group / groups; }
  int64_t BlockWidth(int64_t block) const {
    return std::min(kPanelWidth, width - block * kPanelWidth);
  }

  const int64_t rows, width, up, down, up_padded, down_padded, blocks;
  int64_t ranges = 1, groups = 1;
  int64_t token_sums, weight_sums, scratch;
  int64_t packed_b1, packed_a2, packed_a2t, packed_b1t, hidden, slope;
  int64_t edge_t1, edge_u2, scratch_floats;
};

struct Operands {
  ConstMatrix t1, b1, a2;
  bool backward = false;
  ConstMatrix u2;  // the gradient of T2
};

class Task {
 public:
  Task(const Split& split, const Operands& in, float* workspace, float* scratch)
      : split_(split), in_(in), workspace_(workspace), scratch_(scratch) {}

  void Run(int64_t range, int64_t group) {
    group_ = group;
    range_ = range;
    const int64_t begin = split_.RangeBegin(range);
    const int64_t end = split_.RangeBegin(range + 1);
    const int64_t last_block = split_.GroupBegin(group + 1);
    for (int64_t b = split_.GroupBegin(group); b < last_block; ++b) {
      if (begin < end) Pack(b);
      for (int64_t i = begin; i < end;) {
        int64_t rows = std::min(kTileRows, end - i);
        if (rows > kPanelRowStep) rows -= rows % kPanelRowStep;
        Tile(b, i, rows, i == begin);
        i += rows;
      }
    }
  }

 private:
  void Pack(int64_t block) {
    const int64_t first = block * kPanelWidth, n = split_.BlockWidth(block);
    PackRows(ConstMatrix(in_.b1.data + first, split_.up, n, in_.b1.stride),
             kPanelWidth, scratch_ + split_.packed_b1);
    const ConstMatrix a2(in_.a2.data + first * in_.a2.stride, n, split_.down,
                         in_.a2.stride);
    float* padding = scratch_ + split_.packed_a2 + n * split_.down_padded;
    if (!in_.backward) {
      PackRows(a2, split_.down_padded, scratch_ + split_.packed_a2);
      std::fill(padding, padding + (kPanelWidth - n) * split_.down_padded,
                0.0f);
      return;
    }
    PackTransposed(a2, split_.down, kPanelWidth, scratch_ + split_.packed_a2t);
    PackTransposed(
        ConstMatrix(in_.b1.data + first, split_.up - 1, n, in_.b1.stride),
        kPanelWidth, split_.up_padded, scratch_ + split_.packed_b1t);
  }

  // `rows` tokens from `first` on against the packed block.
  void Tile(int64_t block, int64_t first, int64_t rows, bool first_tile) {
    ConstMatrix t1(in_.t1.data + first * in_.t1.stride, rows, split_.up,
                   in_.t1.stride);
    ConstMatrix u2(in_.u2.data + first * in_.u2.stride, rows, split_.down,
                   in_.u2.stride);
    if (rows % kPanelRowStep != 0) {
      rows = kPanelRowStep;
      t1 = Edge(t1, scratch_ + split_.edge_t1);
      if (in_.backward) u2 = Edge(u2, scratch_ + split_.edge_u2);
    }
    Hidden(t1, rows);
    const PanelProducts& products = BestPanelProducts();
    float* hidden = scratch_ + split_.hidden;
    const bool first_block = block == split_.GroupBegin(group_);
    float* tokens =
        workspace_ + split_.token_sums + group_ * split_.TokenFloats();
    if (!in_.backward) {
      products.narrow(rows, hidden, scratch_ + split_.packed_a2,
                      split_.down_padded, first_block,
                      tokens + first * split_.down_padded);
      return;
    }
    float* slope = scratch_ + split_.slope;
    float* grad_b1 = workspace_ + split_.weight_sums +
                     range_ * split_.WeightFloats() +
                     block * split_.BlockFloats();
    float* grad_a2 = grad_b1 + split_.up * kPanelWidth;
    products.sums(rows, split_.down, u2.data, u2.stride, hidden, first_tile,
                  grad_a2);
    // The gradient before GELU takes the slope's place.
    products.wide_times(rows, split_.down, u2.data, u2.stride,
                        scratch_ + split_.packed_a2t, slope);
    products.sums(rows, split_.up, t1.data, t1.stride, slope, first_tile,
                  grad_b1);
    products.narrow(rows, slope, scratch_ + split_.packed_b1t, split_.up_padded,
                    first_block, tokens + first * split_.up_padded);
  }

  // hidden = gelu(t1 b1) and, going backward, its slope: in steps, while they
  // are in the first cache.
  void Hidden(ConstMatrix t1, int64_t rows) {
    const PanelProducts& products = BestPanelProducts();
    for (int64_t i = 0; i < rows; i += kPanelRowStep) {
      float* hidden = scratch_ + split_.hidden + i * kPanelStride;
      float* slope = scratch_ + split_.slope + i * kPanelStride;
      products.wide(kPanelRowStep, split_.up, t1.data + i * t1.stride,
                    t1.stride, scratch_ + split_.packed_b1, hidden);
      for (int64_t row = 0; row < kPanelRowStep; ++row) {
        if (in_.backward) {
          GeluAndSlopeRun(hidden, hidden, slope, kPanelWidth);
        } else {
          GeluRun(hidden, hidden, kPanelWidth);
        }
        hidden += kPanelStride;
        slope += kPanelStride;
      }
    }
  }

  // Few rows, filled up to a step with zeros.
  ConstMatrix Edge(ConstMatrix rows, float* to) {
    PackRows(rows, rows.cols, to);
    std::fill(to + rows.rows * rows.cols, to + kPanelRowStep * rows.cols, 0.0f);
    return ConstMatrix(to, kPanelRowStep, rows.cols);
  }

  const Split& split_;
  const Operands& in_;
  float* const workspace_;
  float* const scratch_;
  int64_t group_ = 0, range_ = 0;
};

// Tasks are dealt to threads in runs; each thread has scratch of its own.
void RunTasks(int threads, const Split& split, const Operands& in,
              float* workspace) {
  const int64_t tasks = split.ranges * split.groups;
  const int64_t slots = std::min<int64_t>(threads, tasks);
  if (split.rows == 0) return;
  const int64_t cost = split.rows * split.width * split.up / slots;
  ParallelRanges(threads, slots, cost, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot) {
      Task task(split, in, workspace,
                workspace + split.scratch + slot * split.scratch_floats);
      for (int64_t i = tasks * slot / slots; i < tasks * (slot + 1) / slots;
           ++i) {
        task.Run(i / split.groups, i % split.groups);
      }
    }
  });
}

COMERA_CLONES
void AddRun(const float* from, float* to, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

// out = the groups' sums over hidden units, in order.
void FinishTokens(int threads, const Split& split, const float* sums,
                  int64_t padded, Matrix out) {
  ParallelRanges(threads, out.rows, split.groups * out.cols,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const float* from = sums + i * padded;
                     float* to = out.data + i * out.stride;
                     if (split.blocks == 0) {
                       std::fill(to, to + out.cols, 0.0f);
                       continue;
                     }
                     std::copy(from, from + out.cols, to);
                     for (int64_t g = 1; g < split.groups; ++g) {
                       AddRun(from + g * split.TokenFloats(), to, out.cols);
                     }
                   }
                 });
}

// grad_b1 and grad_a2 += the ranges' sums over tokens, in order.
void FinishWeights(int threads, const Split& split, float* sums, Matrix grad_b1,
                   Matrix grad_a2) {
  if (split.rows == 0) return;  // no sums were made
  const auto finish = [&](int64_t block) {
    float* sum = sums + block * split.BlockFloats();
    for (int64_t r = 1; r < split.ranges; ++r) {
      if (split.RangeBegin(r) == split.RangeBegin(r + 1)) continue;
      AddRun(sum + r * split.WeightFloats(), sum, split.BlockFloats());
    }
    const int64_t first = block * kPanelWidth, n = split.BlockWidth(block);
    for (int64_t k = 0; k < split.up; ++k) {
      AddRun(sum + k * kPanelWidth, grad_b1.data + k * grad_b1.stride + first,
             n);
    }
    const float* transposed = sum + split.up * kPanelWidth;
    for (int64_t c = 0; c < n; ++c) {
      float* to = grad_a2.data + (first + c) * grad_a2.stride;
      for (int64_t k = 0; k < split.down; ++k) {
        to[k] += transposed[k * kPanelWidth + c];
      }
    }
  };
  ParallelRanges(threads, split.blocks, split.ranges * split.BlockFloats(),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t b = begin; b < end; ++b) finish(b);
                 });
}

}  // namespace

int64_t CpuBackend::RankSpaceFfnWorkspaceBytes(const RankSpaceFfnShape& shape) {
  return Split(shape).bytes(threads_);
}

absl::Status CpuBackend::RankSpaceFfn(ConstMatrix t1, ConstMatrix b1,
                                      ConstMatrix a2, Matrix t2,
                                      void* workspace) {
  constexpr char kOp[] = "RankSpaceFfn";
  RETURN_IF_ERROR(CheckRankSpaceFfn(kOp, t1, b1, a2));
  RETURN_IF_ERROR(CheckMatrix(kOp, "t2", t2, t1.rows, a2.cols));
  const Split split({t1.rows, b1.cols, t1.cols - 1, a2.cols});
  RETURN_IF_ERROR(
      CheckMemory(kOp, "workspace", workspace, split.bytes(threads_)));
  float* floats = static_cast<float*>(workspace);
  RunTasks(threads_, split, {t1, b1, a2, false, ConstMatrix()}, floats);
  FinishTokens(threads_, split, floats + split.token_sums, split.down_padded,
               t2);
  return absl::OkStatus();
}

absl::Status CpuBackend::RankSpaceFfnBackward(ConstMatrix t1, ConstMatrix b1,
                                              ConstMatrix a2,
                                              ConstMatrix grad_t2,
                                              Matrix grad_t1, Matrix grad_b1,
                                              Matrix grad_a2, void* workspace) {
  constexpr char kOp[] = "RankSpaceFfnBackward";
  RETURN_IF_ERROR(CheckRankSpaceFfn(kOp, t1, b1, a2));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_t2", grad_t2, t1.rows, a2.cols));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_t1", grad_t1, t1.rows, t1.cols - 1));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_b1", grad_b1, b1.rows, b1.cols));
  RETURN_IF_ERROR(CheckMatrix(kOp, "grad_a2", grad_a2, a2.rows, a2.cols));
  const Split split({t1.rows, b1.cols, t1.cols - 1, a2.cols});
  RETURN_IF_ERROR(
      CheckMemory(kOp, "workspace", workspace, split.bytes(threads_)));
  float* floats = static_cast<float*>(workspace);
  RunTasks(threads_, split, {t1, b1, a2, true, grad_t2}, floats);
  FinishTokens(threads_, split, floats + split.token_sums, split.up_padded,
               grad_t1);
  FinishWeights(threads_, split, floats + split.weight_sums, grad_b1, grad_a2);
  return absl::OkStatus();
}

}  // namespace comera::kernels
