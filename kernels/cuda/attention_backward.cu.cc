// Formula: dP = dropout(G v^T), D = row sums of G out, dS = P (dP - D),
// grad_q = dS k, grad_k = dS^T q, grad_v = dropout(P)^T G, for G = grad_out
// (device/attention_backward.h).
// Shapes: q, grad_q, out, grad_out (tokens, heads * head_width); k, v, grad_k,
// grad_v (tokens, key_heads() * head_width); log_sum and D (heads, tokens).
// Threads: a warp takes 16 queries (first kernel, which also leaves D in the
// workspace) or 16 keys (second kernel) of a head, a block four warps; the
// other side passes through shared memory. With the keys all heads of queries
// that share them pass, one after the other. Of causal attention a block passes
// over what its keys or queries have no part in.
#include "kernels/cuda/device/attention_backward.h"

#include <cmath>
#include <utility>

#include "common/status_macros.h"
#include "kernels/cuda/attention_arguments.h"
#include "kernels/cuda/cuda_backend_impl.h"
#include "kernels/cuda/device/ptx.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/shared_memory.h"
#include "kernels/operand_check.h"
#include "kernels/shape_check.h"

namespace comera::kernels {
namespace {

constexpr int kWarps = 4;
constexpr int kRows = 16 * kWarps;
// Keys or queries whose scores a warp has in registers.
template <CudaPrecision kPrecision, int kWidth>
inline constexpr int kTile = kPrecision == CudaPrecision::kFp32 ||
                                     (kPrecision == CudaPrecision::kTf32 &&
                                      kWidth > 64)
                                 ? 16
                                 : 32;
// Queries that pass through shared memory at a time, and where a device has no
// room for them.
template <int kWidth>
inline constexpr int kQueries = kWidth > 64 ? 32 : 64;
template <CudaPrecision kPrecision, int kWidth>
inline constexpr int kFewQueries = kTile<kPrecision, kWidth>;
// Blocks for which a multiprocessor has registers.
template <CudaPrecision kPrecision, int kWidth>
inline constexpr int kResident =
    kPrecision == CudaPrecision::kBf16&& kWidth <= 64 ? 3 : 2;
template <CudaPrecision kPrecision, int kWidth>
inline constexpr bool kInRegisters = kWidth <= 32 ||
                                     (kPrecision == CudaPrecision::kBf16 &&
                                      kWidth <= 64);

// Whether a warp of the second kernel keeps its values in registers, as it does
// its keys. Before sm_90 the compiler lacks some for both in fp32 at width 32.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
template <CudaPrecision kPrecision, int kWidth>
inline constexpr bool kHoldsValues =
    kPrecision != CudaPrecision::kFp32 || kWidth < 32;
#else
template <CudaPrecision kPrecision, int kWidth>
inline constexpr bool kHoldsValues = true;
#endif

template <typename T>
struct Arguments {
  SequenceBlocks blocks;
  DeviceDropout dropout;
  MatrixView<const T> q, k, v, out, grad_out;
  MatrixView<T> grad_q, grad_k, grad_v;
  const float* log_sum = nullptr;
  float* delta = nullptr;  // (heads, tokens)
  int64_t tokens = 0;
  int width = 0;
  int heads = 0;
  int group = 1;  // heads that share keys
  float scale = 1;
  int capacity = 0;  // keys in shared memory
};

template <CudaPrecision kPrecision, int kWidth, bool kCausal, typename T>
__global__ void __launch_bounds__(32 * kWarps, kResident<kPrecision, kWidth>)
    QueryGradientKernel(const __grid_constant__ Arguments<T> a) {
  WaitForEarlierKernels();
  const SequenceBlock block = BlockOf(a.blocks, blockIdx.x);
  if (block.begin >= block.length) return;
  const int head = static_cast<int>(blockIdx.y);
  const int64_t column = int64_t{head} * a.width;
  const int key_column = head / a.group * a.width;
  constexpr int kStride = kRowStride<kWidth>;
  constexpr int kKeys = kTile<kPrecision, kWidth>;
  auto* const queries = DynamicShared<Stored<kPrecision>>();
  auto* const grads = queries + kRows * kStride;
  auto* const keys = grads + kRows * kStride;
  auto* const values = keys + a.capacity * kStride;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int there = block.length - block.begin;
  LoadRows<kWidth>(a.q, block.first + block.begin, column, a.width, kRows,
                   there, a.scale, queries);
  LoadRows<kWidth>(a.grad_out, block.first + block.begin, column, a.width,
                   kRows, there, 1, grads);
  __syncthreads();

  const int begin = block.begin + 16 * warp;
  const int rows = min(16, block.length - begin);
  using Held = HeldRows<kPrecision, kWidth, kInRegisters<kPrecision, kWidth>>;
  const Held query_rows(queries + 16 * warp * kStride);
  const TileDropout dropout(a.dropout, static_cast<int>(gridDim.y));
  const int64_t first = block.first + begin;
  const int64_t row =
      dropout.active() && rows > 0
          ? dropout.Row(first + min(WarpLane() % 16, rows - 1)) + head
          : 0;
  float log_sum[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int i = LaneGroup() + 8 * r;
    log_sum[r] = i < rows ? a.log_sum[head * a.tokens + first + i] : 0;
  }

  float delta[2] = {0, 0};
  if (rows > 0) {
    RowDots<kWidth>(a.out.data + first * a.out.stride + column, a.out.stride,
                    rows, a.width, grads + 16 * warp * kStride, delta);
  }
  // walk over the keys
  const Held grad_rows(grads + 16 * warp * kStride);
  float sums[kWidth / 8][4];
  SetZero(sums);
  const int end = KeysInReach<kCausal>(block.length, block.begin, kRows);
  for (int key = 0; key < end; key += a.capacity) {
    const int count = min(a.capacity, end - key);
    const int padded = (count + kKeys - 1) / kKeys * kKeys;
    __syncthreads();
    LoadRows<kWidth>(a.k, block.first + key, key_column, a.width, padded, count,
                     1, keys);
    LoadRows<kWidth>(a.v, block.first + key, key_column, a.width, padded, count,
                     1, values);
    __syncthreads();
    if (rows > 0) {
      const KeyTiles<kPrecision, SeenKeys<kCausal>> tiles = {
          keys, values, key, KeysInReach<kCausal>(key + count, begin, 16) - key,
          SeenFrom<kCausal>(block.length, begin)};
      AddQueryGradients<kPrecision, kWidth, kKeys>(query_rows, grad_rows, tiles,
                                                   log_sum, delta, dropout, row,
                                                   nullptr, sums);
    }
  }
  // write
  if (rows <= 0) return;
  if (WarpLane() % 4 == 0) {
    float* const to = a.delta + head * a.tokens + first;
    if (LaneGroup() < rows) to[LaneGroup()] = delta[0];
    if (LaneGroup() + 8 < rows) to[LaneGroup() + 8] = delta[1];
  }
  WriteSums<kWidth>(sums, a.scale, rows, a.width,
                    a.grad_q.data + first * a.grad_q.stride + column,
                    a.grad_q.stride);
}

template <CudaPrecision kPrecision, int kWidth, int kStep, bool kCausal,
          typename T>
__global__ void __launch_bounds__(32 * kWarps, kResident<kPrecision, kWidth>)
    KeyGradientKernel(const __grid_constant__ Arguments<T> a) {
  WaitForEarlierKernels();
  const SequenceBlock block = BlockOf(a.blocks, blockIdx.x);
  if (block.begin >= block.length) return;
  const int key_head = static_cast<int>(blockIdx.y);
  const int64_t column = int64_t{key_head} * a.width;
  constexpr int kStride = kRowStride<kWidth>;
  auto* const keys = DynamicShared<Stored<kPrecision>>();
  auto* const values = keys + kRows * kStride;
  auto* const queries = values + kRows * kStride;
  auto* const grads = queries + kStep * kStride;
  auto* const sums = reinterpret_cast<float2*>(grads + kStep * kStride);
  const int there = block.length - block.begin;
  LoadRows<kWidth>(a.k, block.first + block.begin, column, a.width, kRows,
                   there, 1, keys);
  LoadRows<kWidth>(a.v, block.first + block.begin, column, a.width, kRows,
                   there, 1, values);
  __syncthreads();

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int begin = block.begin + 16 * warp;
  const int rows = min(16, block.length - begin);
  constexpr bool kHeld = kWidth <= 32 && kInRegisters<kPrecision, kWidth>;
  using HeldKeys = HeldRows<kPrecision, kWidth, kHeld>;
  using HeldValues =
      HeldRows<kPrecision, kWidth, kHeld && kHoldsValues<kPrecision, kWidth>>;
  const HeldKeys key_rows(keys + 16 * warp * kStride);
  const HeldValues value_rows(values + 16 * warp * kStride);
  const TileDropout dropout(a.dropout, a.heads);
  // walk over the queries of each head, from the first block that sees a key
  float grad_keys[kWidth / 8][4], grad_values[kWidth / 8][4];
  SetZero(grad_keys);
  SetZero(grad_values);
  const int last_head = (key_head + 1) * a.group;
  for (int head = key_head * a.group; head < last_head; ++head) {
    const int64_t query_column = int64_t{head} * a.width;
    for (int query = kCausal ? block.begin : 0; query < block.length;
         query += kStep) {
      const int count = min(kStep, block.length - query);
      const int64_t token = block.first + query;
      LoadRows<kWidth>(a.q, token, query_column, a.width, kStep, count, a.scale,
                       queries);
      LoadRows<kWidth>(a.grad_out, token, query_column, a.width, kStep, count,
                       1, grads);
      for (int i = static_cast<int>(threadIdx.x); i < kStep; i += 32 * kWarps) {
        const int64_t at = head * a.tokens + token + i;
        sums[i] = i < count ? make_float2(a.log_sum[at], a.delta[at])
                            : make_float2(INFINITY, 0);
      }
      __syncthreads();
      if (rows > 0) {
        AddKeyGradients<kPrecision, kWidth, kTile<kPrecision, kWidth>, kCausal>(
            key_rows, value_rows, begin,
            QueryTiles<kPrecision>{queries, grads, sums, token, head, count,
                                   query},
            dropout, grad_keys, grad_values);
      }
      __syncthreads();
    }
  }
  if (rows <= 0) return;
  const int64_t first = block.first + begin;
  WriteSums<kWidth>(grad_keys, 1, rows, a.width,
                    a.grad_k.data + first * a.grad_k.stride + column,
                    a.grad_k.stride);
  WriteSums<kWidth>(grad_values, dropout.scale(), rows, a.width,
                    a.grad_v.data + first * a.grad_v.stride + column,
                    a.grad_v.stride);
}

// The gradients of keys and values, kStep queries at a time: as many as the
// device has room for. Sums have the same bits for any number of them.
template <CudaPrecision kPrecision, int kWidth, int kStep = kQueries<kWidth>,
          typename T>
absl::Status KeyGradients(const AttentionShape& s, int64_t shared,
                          LaunchShape shape, const Arguments<T>& a) {
  constexpr int64_t kRow = RowsBytes<kPrecision, kWidth>(1);
  constexpr int64_t kBytes = 2 * kRows * kRow + kStep * (2 * kRow + 8);
  if constexpr (kBytes > kLeastSharedBytes) {
    static_assert(kStep > kFewQueries<kPrecision, kWidth>,
                  "the smaller tile fits every device");
    if (kBytes > shared) {
      return KeyGradients<kPrecision, kWidth, kFewQueries<kPrecision, kWidth>>(
          s, shared, shape, a);
    }
  }
  shape.shared_bytes = kBytes;
  return Launch("KeyGradientKernel", shape,
                s.causal
                    ? KeyGradientKernel<kPrecision, kWidth, kStep, true, T>
                    : KeyGradientKernel<kPrecision, kWidth, kStep, false, T>,
                a);
}

// `a` has the matrices and pointers of the call; a block of threads may have
// `shared` bytes of shared memory.
template <typename T>
absl::Status Backward(const char* op, KernelStream stream, int64_t shared,
                      CudaPrecision precision, const AttentionShape& s,
                      const DropoutKey& key, ConstIndices offsets,
                      Arguments<T> a) {
  RETURN_IF_ERROR(CheckAttentionOperands(op, s, key, offsets,
                                         {{"q", ShapeOf(a.q)},
                                          {"out", ShapeOf(a.out)},
                                          {"grad_out", ShapeOf(a.grad_out)},
                                          {"grad_q", ShapeOf(a.grad_q)}},
                                         {{"k", ShapeOf(a.k)},
                                          {"v", ShapeOf(a.v)},
                                          {"grad_k", ShapeOf(a.grad_k)},
                                          {"grad_v", ShapeOf(a.grad_v)}},
                                         a.log_sum, a.delta));
  RETURN_IF_ERROR(CheckAttentionWidth(op, "head width", s.head_width));
  if (s.tokens == 0 || s.heads == 0 || s.head_width == 0) {
    return absl::OkStatus();
  }
  a.blocks = {offsets.data, static_cast<int>(BlocksPerSequence(s, kRows)),
              kRows};
  a.dropout = MakeDeviceDropout(key);
  a.tokens = s.tokens;
  a.width = static_cast<int>(s.head_width);
  a.heads = static_cast<int>(s.heads);
  a.group = GroupSize(s);
  a.scale = 1 / std::sqrt(static_cast<float>(s.head_width));
  const auto blocks =
      static_cast<unsigned>(s.sequences * a.blocks.per_sequence);
  return WithOperands<T>(
      precision, s.head_width, [&](auto precision, auto width) -> absl::Status {
        constexpr CudaPrecision kPrecision = precision();
        constexpr int kWidth = width();
        constexpr int64_t kRow = RowsBytes<kPrecision, kWidth>(1);
        constexpr int64_t kFixed = 2 * kRows * kRow;
        a.capacity = KeyCapacity(s.max_length, 32, kTile<kPrecision, kWidth>,
                                 shared, kFixed, 2 * kRow);
        RETURN_IF_ERROR(
            Launch("QueryGradientKernel",
                   {dim3(blocks, static_cast<unsigned>(s.heads)),
                    dim3(32 * kWarps), kFixed + 2 * a.capacity * kRow, stream},
                   s.causal ? QueryGradientKernel<kPrecision, kWidth, true, T>
                            : QueryGradientKernel<kPrecision, kWidth, false, T>,
                   a));
        return KeyGradients<kPrecision, kWidth>(
            s, shared,
            {dim3(blocks, static_cast<unsigned>(s.key_heads())),
             dim3(32 * kWarps), 0, stream},
            a);
      });
}

}  // namespace

int64_t CudaBackend::AttentionWorkspaceBytes(const AttentionShape& s) {
  return s.heads * s.tokens * static_cast<int64_t>(sizeof(float));
}

absl::Status CudaBackend::AttentionBackward(
    const AttentionShape& s, const DropoutKey& key, ConstIndices offsets,
    ConstMatrix q, ConstMatrix k, ConstMatrix v, const float* log_sum,
    ConstMatrix out, ConstMatrix grad_out, Matrix grad_q, Matrix grad_k,
    Matrix grad_v, void* workspace) {
  return Backward<float>("AttentionBackward", stream_,
                         SharedBytesPerBlock(options_.device),
                         options_.precision, s, key, offsets,
                         {{},
                          {},
                          q,
                          k,
                          v,
                          out,
                          grad_out,
                          grad_q,
                          grad_k,
                          grad_v,
                          log_sum,
                          static_cast<float*>(workspace)});
}

absl::Status CudaBackend::AttentionBackwardBf16(
    const AttentionShape& s, const DropoutKey& key, ConstIndices offsets,
    ConstBf16Matrix q, ConstBf16Matrix k, ConstBf16Matrix v,
    const float* log_sum, ConstBf16Matrix out, ConstBf16Matrix grad_out,
    Bf16Matrix grad_q, Bf16Matrix grad_k, Bf16Matrix grad_v, void* workspace) {
  return Backward<uint16_t>("AttentionBackwardBf16", stream_,
                            SharedBytesPerBlock(options_.device),
                            options_.precision, s, key, offsets,
                            {{},
                             {},
                             q,
                             k,
                             v,
                             out,
                             grad_out,
                             grad_q,
                             grad_k,
                             grad_v,
                             log_sum,
                             static_cast<float*>(workspace)});
}

}  // namespace comera::kernels
