// Dropout of attention probabilities for tiles as they lie in registers
// (device/mma_tile.h): of each element one bit, of which a lane draws eight
// with one call of Philox and hands them to the lanes that need them.
#ifndef COMERA_KERNELS_CUDA_DEVICE_ATTENTION_DROPOUT_H_
#define COMERA_KERNELS_CUDA_DEVICE_ATTENTION_DROPOUT_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/dropout.h"
#include "kernels/cuda/device/mma_tile.h"
#include "kernels/philox.h"

namespace comera::kernels {

// One thread's view of the dropout of an attention.
class TileDropout {
 public:
  __device__ TileDropout(const DeviceDropout& d, int heads)
      : d_(d), heads_(heads) {
    if (!active()) return;
    row_ = MakeDropoutRow(d.state->seed, d.state->step, d.site, 0);
  }
  __device__ bool active() const { return d_.threshold > 0; }
  __device__ float scale() const { return d_.scale; }

  // Philox's row of a query token and head 0.
  __device__ int64_t Row(int64_t token) const {
    const int64_t id = d_.row_ids == nullptr ? token : d_.row_ids[token];
    return (d_.first_row + id) * heads_;
  }
  // Bit i: whether column 8 * group + i of a row is kept.
  __device__ uint32_t KeepByte(int64_t row, uint32_t group) const {
    const PhiloxWords words = Philox<kDropoutRounds>(
        {{group, static_cast<uint32_t>(row),
          row_.c2 + (static_cast<uint32_t>(row >> 32) << 16), row_.c3}},
        row_.key0, row_.key1);
    uint32_t keep = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t low = words.w[i] & 0xffff, high = words.w[i] >> 16;
      keep |= (low >= d_.threshold ? 1u : 0u) << (2 * i);
      keep |= (high >= d_.threshold ? 2u : 0u) << (2 * i);
    }
    return keep;
  }

 private:
  const DeviceDropout& d_;
  const int heads_;
  DropoutRow row_ = {};
};

// A tile of 16 queries by up to 64 keys: what lanes draw, and which elements of
// the tile that makes the lane's.
class QueryKeep {
 public:
  // `row`: Philox's row of query WarpLane() % 16; `key`, a multiple of 8, the
  // place of the tile's first key.
  template <int kKeys>
  static __device__ uint32_t Draw(const TileDropout& dropout, int64_t row,
                                  int key) {
    static_assert(kKeys % 16 == 0 && kKeys <= 64);
    uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i) {
      const uint32_t group =
          static_cast<uint32_t>(key / 8 + 2 * i + WarpLane() / 16);
      word |= dropout.KeepByte(row, group) << (8 * i);
    }
    return word;
  }
  // `word` of all lanes as Draw gives it; all ones keep all.
  __device__ explicit QueryKeep(uint32_t word) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int from = LaneGroup() + 8 * (i / 2) + 16 * (i % 2);
      bits_[i] = __shfl_sync(0xffffffffu, word, from) >> LanePair();
    }
  }
  // Whether value i of the 8 keys `tile` is kept.
  __device__ bool operator()(int tile, int i) const {
    return (bits_[i / 2 * 2 + tile % 2] >> (8 * (tile / 2) + i % 2) & 1) != 0;
  }

 private:
  uint32_t bits_[4];
};

// What dropout keeps of 16 keys by up to 32 queries.
class KeyKeep {
 public:
  __device__ KeyKeep() {}  // keeps all
  // rows[s]: Philox's row of query 16 s + WarpLane() % 16; `key`, a multiple of
  // 16, the place of the tile's first key.
  template <int kSixteens>
  __device__ void Draw(const TileDropout& dropout,
                       const int64_t (&rows)[kSixteens], int key) {
    static_assert(kSixteens <= 2);
    const uint32_t half = WarpLane() / 16;
    const uint32_t group = static_cast<uint32_t>(key / 8) + half;
    uint32_t word = 0;
#pragma unroll
    for (int s = 0; s < kSixteens; ++s) {
      word |= dropout.KeepByte(rows[s], group) << (16 * s);
    }
    const uint32_t other = __shfl_xor_sync(0xffffffffu, word, 16);
    const uint32_t both = half == 0 ? word | other << 8 : other | word << 8;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int from = 8 * (i / 2) + LanePair() + i % 2;
      bits_[i] = __shfl_sync(0xffffffffu, both, from) >> LaneGroup();
    }
  }
  // Whether value i of the 8 queries `tile` is kept.
  __device__ bool operator()(int tile, int i) const {
    return (bits_[tile % 2 * 2 + i % 2] >> (16 * (tile / 2) + 8 * (i / 2)) &
            1) != 0;
  }

 private:
  uint32_t bits_[4] = {0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu};
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_ATTENTION_DROPOUT_H_
