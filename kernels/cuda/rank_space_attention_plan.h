// How rank-space attention is cut for the device, and its workspace.
#ifndef COMERA_KERNELS_CUDA_RANK_SPACE_ATTENTION_PLAN_H_
#define COMERA_KERNELS_CUDA_RANK_SPACE_ATTENTION_PLAN_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device/rank_space_factors.h"

namespace comera::kernels {

// Backward, the heads of a sequence go to several blocks of threads in groups;
// what the groups add to the same gradients is summed up afterwards. A block
// takes every blocks_x-th block of tokens and sums up its part of the gradients
// of C and E.
struct RankSpacePlan {
  // `shared`: the bytes of shared memory that a block of threads may have.
  // Where they do not hold the tokens of two warps, a block has one warp, and
  // sums over tokens have another order than on devices that have more.
  RankSpacePlan(const RankSpaceAttentionShape& shape, CudaPrecision precision,
                int64_t shared);

  int q = 0, k = 0, v = 0, o = 0;  // widths, with the ones' columns
  int width = 0;                   // the widest, padded
  int warps = 0;                   // backward; a warp has 16 tokens
  int64_t blocks = 0;              // each has at most 16 * warps tokens
  int groups = 1;
  int heads_per_group = 0;
  int64_t chunks = 0;  // parts of the gradients of C and E
};

// Backward, up to this many keys of a sequence, a warp keeps what dropout has
// drawn for the second walk over them, a word for each lane and 16 keys;
// beyond, it is drawn again.
inline constexpr int kMostDrawn = 256;
inline constexpr int64_t kMostDrawnBytes = kMostDrawn / 16 * 32 * 4;

// Places in the workspace.
struct RankSpaceWorkspace {
  // A null base measures: `bytes` is right, the pointers are not.
  RankSpaceWorkspace(const RankSpaceAttentionShape& shape,
                     const RankSpacePlan& plan, int64_t partial_rows,
                     void* base);
  void *c = nullptr, *e = nullptr;  // packed; c times the scale of the scores
  void *c_transposed = nullptr, *e_transposed = nullptr;
  float* delta = nullptr;         // (heads, tokens)
  float* grad_factors = nullptr;  // (chunks, heads, 2, width, width)
  float *grad_q = nullptr, *grad_k = nullptr, *grad_v = nullptr;  // by group
  int64_t bytes = 0;
};

// Rows of the partial gradients of queries, keys and values that suffice for
// any shape of no more sequences, tokens and max_length.
int64_t MostPartialRows(const RankSpaceAttentionShape& shape,
                        const RankSpacePlan& plan);

float RankSpaceScoreScale(const RankSpaceAttentionShape& shape);

absl::Status CheckRankSpaceAttention(
    const char* op, const RankSpaceAttentionShape& shape, const DropoutKey& key,
    ConstIndices offsets, ConstMatrix q, ConstMatrix k, ConstMatrix v,
    ConstMatrix c, ConstMatrix e, const float* log_sum, const void* workspace);

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_RANK_SPACE_ATTENTION_PLAN_H_
