// Gradients of attention, from P computed again as exp(score - log_sum). With
// G = the gradient of the context, a head's share is
//   dP = dropout(G values^T),  D = row sums of P dP,  dS = P (dP - D),
//   grad queries = dS keys,  grad keys = dS^T queries,
//   grad values = dropout(P)^T G.
// D is also the row sum of G and the context, dropout(P) values, which a first
// walk over the keys gives where it is not in memory. A second walk gives the
// gradient of the queries. Those of keys and values are another kernel's, which
// walks over the queries; so every sum has one order.
#ifndef COMERA_KERNELS_CUDA_DEVICE_ATTENTION_BACKWARD_H_
#define COMERA_KERNELS_CUDA_DEVICE_ATTENTION_BACKWARD_H_

#include "kernels/cuda/device/attention_dropout.h"
#include "kernels/cuda/device/attention_forward.h"
#include "kernels/cuda/device/attention_tile.h"

namespace comera::kernels {

// P of a tile of 16 queries by kKeys keys, the first of which has place `key`
// in the sequence; keys that are not seen have 0.
template <CudaPrecision kPrecision, int kWidth, int kKeys, typename Held,
          typename Seen>
__device__ __forceinline__ void Probabilities(const Held& queries,
                                              const Stored<kPrecision>* keys,
                                              const float (&log_sum)[2],
                                              const Seen& seen, int key,
                                              float (&p)[kKeys / 8][4]) {
  MultiplyByRows<kPrecision, kWidth, kKeys>(queries, keys, p);
#pragma unroll
  for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const bool is_seen = 8 * j + LanePair() + i % 2 < seen(i / 2) - key;
      p[j][i] = is_seen ? ExpOf<kPrecision>(p[j][i], log_sum[i / 2]) : 0;
    }
  }
}

// First walk: context += P values, of kept P, not yet scaled. What was drawn
// goes to `drawn`, 32 words per tile of kKeys, for the second, unless null.
template <CudaPrecision kPrecision, int kWidth, int kKeys, typename Held,
          typename Seen>
__device__ __forceinline__ void AddContext(const Held& queries,
                                           const KeyTiles<kPrecision, Seen>& in,
                                           const float (&log_sum)[2],
                                           const TileDropout& dropout,
                                           int64_t row, uint32_t* drawn,
                                           float (&context)[kWidth / 8][4]) {
#pragma unroll 1
  for (int at = 0; at < in.count; at += kKeys) {
    const int key = in.first + at;
    float p[kKeys / 8][4];
    Probabilities<kPrecision, kWidth, kKeys>(
        queries, in.keys + at * kRowStride<kWidth>, log_sum, in.seen, key, p);
    if (dropout.active()) {
      const uint32_t word = QueryKeep::Draw<kKeys>(dropout, row, key);
      if (drawn != nullptr) drawn[key / kKeys * 32 + WarpLane()] = word;
      const QueryKeep keep(word);
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) p[j][i] = keep(j, i) ? p[j][i] : 0;
      }
    }
    AddTimesRows<kPrecision, kWidth, kKeys>(
        p, in.values + at * kRowStride<kWidth>, context);
  }
}

// Second walk: sums += dS keys. `delta` is D of the lane's rows.
template <CudaPrecision kPrecision, int kWidth, int kKeys, typename Held,
          typename Seen>
__device__ __forceinline__ void AddQueryGradients(
    const Held& queries, const Held& grad_context,
    const KeyTiles<kPrecision, Seen>& in, const float (&log_sum)[2],
    const float (&delta)[2], const TileDropout& dropout, int64_t row,
    const uint32_t* drawn, float (&sums)[kWidth / 8][4]) {
#pragma unroll 1
  for (int at = 0; at < in.count; at += kKeys) {
    const int key = in.first + at;
    const Stored<kPrecision>* keys = in.keys + at * kRowStride<kWidth>;
    float p[kKeys / 8][4], grad[kKeys / 8][4];
    Probabilities<kPrecision, kWidth, kKeys>(queries, keys, log_sum, in.seen,
                                             key, p);
    MultiplyByRows<kPrecision, kWidth, kKeys>(
        grad_context, in.values + at * kRowStride<kWidth>, grad);
    uint32_t word = 0xffffffffu;
    if (dropout.active()) {
      word = drawn != nullptr ? drawn[key / kKeys * 32 + WarpLane()]
                              : QueryKeep::Draw<kKeys>(dropout, row, key);
    }
    const QueryKeep keep(word);
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float kept = keep(j, i) ? dropout.scale() * grad[j][i] : 0;
        grad[j][i] = p[j][i] * (kept - delta[i / 2]);
      }
    }
    AddTimesRows<kPrecision, kWidth, kKeys>(grad, keys, sums);
  }
}

// Queries of one head in shared memory, as the gradients of keys see them.
template <CudaPrecision kPrecision>
struct QueryTiles {
  const Stored<kPrecision>* queries = nullptr;       // rows, padded width
  const Stored<kPrecision>* grad_context = nullptr;  // likewise
  const float2* sums = nullptr;                      // log_sum and D of each
  int64_t token = 0;                                 // the first of them
  int head = 0;
  int count =
      0;  // queries that exist; rows are filled up to a multiple of kQueries
  int first = 0;  // place of the first in the sequence, for causal attention
};

// grad_keys += dS^T queries, grad_values += dropout(P)^T G (not yet scaled) for
// the 16 keys of a warp, whose first has place `key` in the sequence. kCausal:
// queries before a key do not see it.
template <CudaPrecision kPrecision, int kWidth, int kQueries,
          bool kCausal = false, typename HeldKeys, typename HeldValues>
__device__ __forceinline__ void AddKeyGradients(
    const HeldKeys& keys, const HeldValues& values, int key,
    const QueryTiles<kPrecision>& in, const TileDropout& dropout,
    float (&grad_keys)[kWidth / 8][4], float (&grad_values)[kWidth / 8][4]) {
  // tiles of queries that are all before the first key are left out
  const int begin = kCausal ? max(0, key - in.first) / kQueries * kQueries : 0;
#pragma unroll 1
  for (int at = begin; at < in.count; at += kQueries) {
    const Stored<kPrecision>* queries = in.queries + at * kRowStride<kWidth>;
    const Stored<kPrecision>* grads = in.grad_context + at * kRowStride<kWidth>;
    KeyKeep keep;
    if (dropout.active()) {
      int64_t rows[kQueries / 16];
#pragma unroll
      for (int s = 0; s < kQueries / 16; ++s) {
        const int query = min(at + 16 * s + WarpLane() % 16, in.count - 1);
        rows[s] = dropout.Row(in.token + query) + in.head;
      }
      keep.Draw(dropout, rows, key);
    }
    float p[kQueries / 8][4], grad[kQueries / 8][4];
    MultiplyByRows<kPrecision, kWidth, kQueries>(keys, queries, p);
    MultiplyByRows<kPrecision, kWidth, kQueries>(values, grads, grad);
#pragma unroll
    for (int j = 0; j < kQueries / 8; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 of = in.sums[at + 8 * j + LanePair() + i % 2];
        const bool kept = keep(j, i);
        float weight = ExpOf<kPrecision>(p[j][i], of.x);
        if constexpr (kCausal) {
          const int query = in.first + at + 8 * j + LanePair() + i % 2;
          if (query < key + LaneGroup() + 8 * (i / 2)) weight = 0;
        }
        grad[j][i] =
            weight * ((kept ? dropout.scale() * grad[j][i] : 0) - of.y);
        p[j][i] = kept ? weight : 0;
      }
    }
    AddTimesRows<kPrecision, kWidth, kQueries>(p, grads, grad_values);
    AddTimesRows<kPrecision, kWidth, kQueries>(grad, queries, grad_keys);
  }
}

}  // namespace comera::kernels

#endif  // COMERA_KERNELS_CUDA_DEVICE_ATTENTION_BACKWARD_H_
