// How the host starts the kernels of attention: widths padded to a few, each
// with its kernels.
#ifndef COMERA_KERNELS_CUDA_ATTENTION_ARGUMENTS_H_
#define COMERA_KERNELS_CUDA_ATTENTION_ARGUMENTS_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device/attention_tile.h"
#include "kernels/cuda/precision_switch.h"
#include "kernels/gpu_limits.h"

namespace comera::kernels {

// The sequences of a call, cut into blocks of `rows` tokens: block i is number
// i % per_sequence of sequence i / per_sequence, and may be empty.
struct SequenceBlocks {
  const int32_t* offsets = nullptr;
  int per_sequence = 0;
  int rows = 0;
};
struct SequenceBlock {
  int64_t first = 0;  // token of the sequence
  int length = 0;     // tokens of the sequence
  int begin = 0;      // where the block begins in the sequence
};
__device__ __forceinline__ SequenceBlock BlockOf(const SequenceBlocks& blocks,
                                                 int i) {
  const int sequence = i / blocks.per_sequence;
  const int first = blocks.offsets[sequence];
  return {first, blocks.offsets[sequence + 1] - first,
          i % blocks.per_sequence * blocks.rows};
}

// Heads of queries that share a head of keys; there are some.
inline int GroupSize(const AttentionShape& s) {
  return static_cast<int>(s.heads / s.key_heads());
}

inline int64_t BlocksPerSequence(const AttentionShape& s, int64_t rows) {
  return (s.max_length + rows - 1) / rows;
}

// f(precision, width) with both as std::integral_constant, `width` the least
// that holds `least`, which is at most kMostAttentionWidth.
template <typename Precision, typename F>
absl::Status WithWidth(Precision p, int64_t least, const F& f) {
  if (least <= 16) return f(p, std::integral_constant<int, 16>());
  if (least <= 32) return f(p, std::integral_constant<int, 32>());
  if (least <= 64) return f(p, std::integral_constant<int, 64>());
  return f(p, std::integral_constant<int, 128>());
}
template <typename F>
absl::Status WithWidth(CudaPrecision precision, int64_t least, const F& f) {
  return SwitchPrecision(precision,
                         [&](auto p) { return WithWidth(p, least, f); });
}
// The same for operands of type T in memory; kernels for bfloat16 have that
// precision only.
template <typename T, typename F>
absl::Status WithOperands(CudaPrecision precision, int64_t least, const F& f) {
  if constexpr (std::is_same_v<T, uint16_t>) {
    return WithWidth(
        std::integral_constant<CudaPrecision, CudaPrecision::kBf16>(), least,
        f);
  } else {
    return WithWidth(precision, least, f);
  }
}

inline absl::Status CheckAttentionWidth(const char* op, const char* what,
                                        int64_t width) {
  if (width <= kMostAttentionWidth) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(op, ": ", what, " is ", width,
                                                 ", on CUDA at most ",
                                                 kMostAttentionWidth));
}

// Bytes of `rows` rows of operands in shared memory.
template <CudaPrecision kPrecision, int kWidth>
constexpr int64_t RowsBytes(int64_t rows) {
  return rows * kRowStride<kWidth> *
         static_cast<int64_t>(sizeof(Stored<kPrecision>));
}

// The shared memory that a block takes for keys, so that two fit on a large
// device's multiprocessor.
inline constexpr int64_t kAttentionSharedBytes = 100 * 1024;

// How many of at most `length` keys lie in what `fixed` bytes leave, at `each`
// bytes per key: a multiple of `tile`, or where a block's `shared` bytes do not
// hold one, of `least`. Sums have the same bits for any number of keys.
inline int KeyCapacity(int64_t length, int64_t tile, int64_t least,
                       int64_t shared, int64_t fixed, int64_t each) {
  const int64_t wanted = std::min(shared, kAttentionSharedBytes) - fixed;
  const int64_t fit = wanted / each / tile * tile;
  const int64_t need = (length + tile - 1) / tile * tile;
  const int64_t keys = std::max(tile, std::min(fit, need));
  if (fixed + keys * each <= shared) return static_cast<int>(keys);
  return static_cast<int>(
      std::max(least, (shared - fixed) / each / least * least));
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_ATTENTION_ARGUMENTS_H_
