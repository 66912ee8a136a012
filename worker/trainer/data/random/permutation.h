#ifndef COMERA_WORKER_TRAINER_DATA_RANDOM_PERMUTATION_H_
#define COMERA_WORKER_TRAINER_DATA_RANDOM_PERMUTATION_H_

#include <cstdint>

#include "worker/trainer/data/random/counter_random.h"

namespace comera::trainer {

// Where `index` in [0, n) goes under the permutation of [0, n) that belongs to
// (seed, stream, number). A Feistel network over the next even power of two,
// walked until it lands below n: nothing to store, nothing to lock, and any
// epoch is reached without those before it. n in [1, 2^62].
inline uint64_t PermutedIndex(uint64_t seed, RandomStream stream,
                              uint64_t number, uint64_t n, uint64_t index) {
  int half_bits = 1;
  while ((uint64_t{1} << (2 * half_bits)) < n) ++half_bits;
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  const uint64_t key =
      MixBits(MixBits(seed ^ MixBits(static_cast<uint64_t>(stream))) ^ number);
  // The domain is below 4 n, so a walk takes four rounds on average at most,
  // and it ends because the network is a permutation.
  do {
    uint64_t left = index >> half_bits;
    uint64_t right = index & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      const uint64_t next =
          left ^ (MixBits(key + MixBits(right ^ (round << 56))) & mask);
      left = right;
      right = next;
    }
    index = (left << half_bits) | right;
  } while (index >= n);
  return index;
}

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_RANDOM_PERMUTATION_H_
