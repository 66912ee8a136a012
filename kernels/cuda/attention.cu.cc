// Formula: out = dropout(P) v with P = softmax of q k^T / sqrt(head_width) over
// the keys of the sequence; log_sum = log of the rows' sums of exponentials.
// Shapes: q, out (tokens, heads * head_width); k, v (tokens, key_heads() *
// head_width); log_sum (heads, tokens).
// Threads: a warp takes 16 queries of one head, a block four warps; keys and
// values pass through shared memory, scores stay in registers. Of causal
// attention a block ends with the keys of its last query.
#include <cmath>

#include "common/status_macros.h"
#include "kernels/cuda/attention_arguments.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/attention_forward.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/shared_memory.h"
#include "kernels/operand_check.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

constexpr int kWarps = 4;
constexpr int kQueries = 16 * kWarps;
// The keys that lie in shared memory at a time, and whose scores a warp has in
// registers.
template <CudaPrecision kPrecision, int kWidth>
inline constexpr int kKeys = kWidth > 64 || (kWidth > 32 &&
                                             kPrecision == CudaPrecision::kFp32)
                                 ? 32
                                 : 64;

// Whether a warp keeps its queries in registers. Causal attention needs the
// registers for its masks: in fp32 at width 64 it reads them again instead.
template <CudaPrecision kPrecision, int kWidth, bool kCausal>
inline constexpr bool kHeld =
    kPrecision == CudaPrecision::kBf16 || kWidth < 64 ||
    (kWidth == 64 && !(kCausal && kPrecision == CudaPrecision::kFp32));

// Blocks for which a multiprocessor has registers.
template <CudaPrecision kPrecision, int kWidth>
inline constexpr int kResident =
    kPrecision != CudaPrecision::kBf16 || kWidth > 64 ? 2
    : kWidth > 32                                     ? 3
                                                      : 4;

template <typename T>
struct Arguments {
  SequenceBlocks blocks;
  DeviceDropout dropout;
  MatrixView<const T> q, k, v;
  MatrixView<T> out;
  float* log_sum = nullptr;
  int64_t tokens = 0;
  int width = 0;
  int group = 1;  // heads that share keys
  float scale = 1;
};

template <CudaPrecision kPrecision, int kWidth, bool kCausal, typename T>
__global__ void __launch_bounds__(32 * kWarps, kResident<kPrecision, kWidth>)
    AttentionKernel(const __grid_constant__ Arguments<T> a) {
  WaitForEarlierKernels();
  constexpr int kTile = kKeys<kPrecision, kWidth>;
  const SequenceBlock block = BlockOf(a.blocks, blockIdx.x);
  if (block.begin >= block.length) return;
  const int head = static_cast<int>(blockIdx.y);
  const int64_t column = int64_t{head} * a.width;
  const int key_column = head / a.group * a.width;
  auto* const queries = DynamicShared<Stored<kPrecision>>();
  auto* const keys = queries + kQueries * kRowStride<kWidth>;
  auto* const values = keys + kTile * kRowStride<kWidth>;
  // queries of the block, scaled
  LoadRows<kWidth>(a.q, block.first + block.begin, column, a.width, kQueries,
                   block.length - block.begin, a.scale, queries);
  __syncthreads();

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int begin = block.begin + 16 * warp;
  const int rows = min(16, block.length - begin);
  const HeldRows<kPrecision, kWidth, kHeld<kPrecision, kWidth, kCausal>> held(
      queries + 16 * warp * kRowStride<kWidth>);
  const TileDropout dropout(a.dropout, static_cast<int>(gridDim.y));
  const int64_t first = block.first + begin;
  const int64_t row =
      dropout.active() && rows > 0
          ? dropout.Row(first + min(WarpLane() % 16, rows - 1)) + head
          : 0;
  // walk over the keys
  RunningSoftmax<kPrecision, kWidth> softmax;
  const int end = KeysInReach<kCausal>(block.length, block.begin, kQueries);
  for (int key = 0; key < end; key += kTile) {
    const int count = min(kTile, end - key);
    LoadRows<kWidth>(a.k, block.first + key, key_column, a.width, kTile, count,
                     1, keys);
    LoadRows<kWidth>(a.v, block.first + key, key_column, a.width, kTile, count,
                     1, values);
    __syncthreads();
    if (rows > 0) {
      softmax.template See<kTile>(
          held,
          KeyTiles<kPrecision, SeenKeys<kCausal>>{
              keys, values, key,
              KeysInReach<kCausal>(key + count, begin, 16) - key,
              SeenFrom<kCausal>(block.length, begin)},
          dropout, row);
    }
    __syncthreads();
  }
  if (rows <= 0) return;
  // divide by the sums and write
  float log_sum[2];
  softmax.Finish(dropout.scale(), log_sum);
  if (WarpLane() % 4 == 0) {
    float* const to = a.log_sum + head * a.tokens + first;
    if (LaneGroup() < rows) to[LaneGroup()] = log_sum[0];
    if (LaneGroup() + 8 < rows) to[LaneGroup() + 8] = log_sum[1];
  }
  WriteSums<kWidth>(softmax.context(), 1, rows, a.width,
                    a.out.data + first * a.out.stride + column, a.out.stride);
}

template <typename T>
absl::Status Attend(const char* op, KernelStream stream,
                    CudaPrecision precision, const AttentionShape& s,
                    const DropoutKey& key, ConstIndices offsets,
                    MatrixView<const T> q, MatrixView<const T> k,
                    MatrixView<const T> v, float* log_sum, MatrixView<T> out,
                    const void* workspace) {
  RETURN_IF_ERROR(CheckAttentionOperands(
      op, s, key, offsets, {{"q", ShapeOf(q)}, {"out", ShapeOf(out)}},
      {{"k", ShapeOf(k)}, {"v", ShapeOf(v)}}, log_sum, workspace));
  RETURN_IF_ERROR(CheckAttentionWidth(op, "head width", s.head_width));
  if (s.tokens == 0 || s.heads == 0 || s.head_width == 0) {
    return absl::OkStatus();
  }
  Arguments<T> a;
  a.blocks = {offsets.data, static_cast<int>(BlocksPerSequence(s, kQueries)),
              kQueries};
  a.dropout = MakeDeviceDropout(key);
  a.q = q;
  a.k = k;
  a.v = v;
  a.out = out;
  a.log_sum = log_sum;
  a.tokens = s.tokens;
  a.width = static_cast<int>(s.head_width);
  a.group = GroupSize(s);
  a.scale = 1 / std::sqrt(static_cast<float>(s.head_width));
  const dim3 grid(static_cast<unsigned>(s.sequences * a.blocks.per_sequence),
                  static_cast<unsigned>(s.heads));
  return WithOperands<T>(
      precision, s.head_width, [&](auto precision, auto width) {
        constexpr int64_t kBytes = RowsBytes<precision(), width()>(
            kQueries + 2 * kKeys<precision(), width()>);
        static_assert(kBytes <= kLeastSharedBytes);
        return Launch(op, {grid, dim3(32 * kWarps), kBytes, stream},
                      s.causal
                          ? AttentionKernel<precision(), width(), true, T>
                          : AttentionKernel<precision(), width(), false, T>,
                      a);
      });
}

}  // namespace

absl::Status CudaBackend::Attention(const AttentionShape& s,
                                    const DropoutKey& key, ConstIndices offsets,
                                    ConstMatrix q, ConstMatrix k, ConstMatrix v,
                                    float* log_sum, Matrix out,
                                    void* workspace) {
  return Attend<float>("Attention", stream_, options_.precision, s, key,
                       offsets, q, k, v, log_sum, out, workspace);
}

absl::Status CudaBackend::AttentionBf16(const AttentionShape& s,
                                        const DropoutKey& key,
                                        ConstIndices offsets, ConstBf16Matrix q,
                                        ConstBf16Matrix k, ConstBf16Matrix v,
                                        float* log_sum, Bf16Matrix out,
                                        void* workspace) {
  return Attend<uint16_t>("AttentionBf16", stream_, options_.precision, s, key,
                          offsets, q, k, v, log_sum, out, workspace);
}

}  // namespace comera::kernels
