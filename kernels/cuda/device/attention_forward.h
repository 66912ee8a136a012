// Softmax over keys that come tile by tile, and what it makes of the values
// (Dao, "FlashAttention-2", 2023, algorithm 1).
#ifndef COMERA_KERNELS_CUDA_DEVICE_ATTENTION_FORWARD_H_
#define COMERA_KERNELS_CUDA_DEVICE_ATTENTION_FORWARD_H_

#include <cmath>

#include "kernels/cuda/device/attention_dropout.h"
#include "kernels/cuda/device/attention_keys.h"
#include "kernels/cuda/device/attention_tile.h"

namespace comera::kernels {

// The keys of a sequence that lie in shared memory at a time.
template <CudaPrecision kPrecision, typename Seen = AllKeys>
struct KeyTiles {
  const Stored<kPrecision>* keys = nullptr;    // rows of the padded width
  const Stored<kPrecision>* values = nullptr;  // likewise
  int first = 0;  // place of the first in the sequence, a multiple of kKeys
  int count = 0;  // keys that lie here; zeros up to a multiple of kKeys
  Seen seen;      // by the queries
};

// What 16 queries of a head have seen so far; row i of a lane is its row
// g + 8 i.
template <CudaPrecision kPrecision, int kWidth>
class RunningSoftmax {
 public:
  __device__ __forceinline__ RunningSoftmax() { SetZero(context_); }

  // `row`: Philox's row of query WarpLane() % 16 and this head.
  template <int kKeys, typename Held, typename Seen>
  __device__ __forceinline__ void See(const Held& queries,
                                      const KeyTiles<kPrecision, Seen>& in,
                                      const TileDropout& dropout, int64_t row) {
    for (int at = 0; at < in.count; at += kKeys) {
      float p[kKeys / 8][4];
      MultiplyByRows<kPrecision, kWidth, kKeys>(
          queries, in.keys + at * kRowStride<kWidth>, p);
      const int key = in.first + at;
      ToWeights<kKeys>(p, in.seen(0) - key, in.seen(1) - key);
      if (dropout.active()) {
        const QueryKeep keep(QueryKeep::Draw<kKeys>(dropout, row, key));
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
          for (int i = 0; i < 4; ++i) p[j][i] = keep(j, i) ? p[j][i] : 0;
        }
      }
      AddTimesRows<kPrecision, kWidth, kKeys>(
          p, in.values + at * kRowStride<kWidth>, context_);
    }
  }

  // After the last key: the context becomes dropout(P) values; log_sum is that
  // of the lane's rows.
  __device__ __forceinline__ void Finish(float kept_scale,
                                         float (&log_sum)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float sum = RowSum(sum_[r]);
      log_sum[r] = largest_[r] + logf(sum);
      const float factor = kept_scale / sum;
#pragma unroll
      for (int j = 0; j < kWidth / 8; ++j) {
        context_[j][2 * r] *= factor;
        context_[j][2 * r + 1] *= factor;
      }
    }
  }
  __device__ __forceinline__ const float (&context() const)[kWidth / 8][4] {
    return context_;
  }

 private:
  // Scores, of which the first `upper` columns of the lane's first row count
  // and the first `lower`, which are no fewer, of its second, become exp(score
  // - largest so far); what was summed up before is rescaled. Of the sequence's
  // first keys at least one counts, so that `largest` is finite from then on.
  template <int kKeys>
  __device__ __forceinline__ void ToWeights(float (&p)[kKeys / 8][4], int upper,
                                            int lower) {
    if (upper < kKeys) {
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int valid = i < 2 ? upper : lower;
          if (8 * j + LanePair() + i % 2 >= valid) p[j][i] = -INFINITY;
        }
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float largest = -INFINITY;
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j) {
        largest = fmaxf(largest, fmaxf(p[j][2 * r], p[j][2 * r + 1]));
      }
      largest = fmaxf(largest_[r], RowMax(largest));
      const float rescale = ExpOf<kPrecision>(largest_[r], largest);
      largest_[r] = largest;
      float sum = 0;
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
        for (int i = 2 * r; i < 2 * r + 2; ++i) {
          p[j][i] = ExpOf<kPrecision>(p[j][i], largest);
          sum += p[j][i];
        }
      }
      sum_[r] = sum_[r] * rescale + sum;
#pragma unroll
      for (int j = 0; j < kWidth / 8; ++j) {
        context_[j][2 * r] *= rescale;
        context_[j][2 * r + 1] *= rescale;
      }
    }
  }

  float largest_[2] = {-INFINITY, -INFINITY};
  float sum_[2] = {0, 0};  // over the lane's columns
  float context_[kWidth / 8][4];
};

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_ATTENTION_FORWARD_H_
