// Hashes of texts that are the same on every machine, for splits that are
// functions of their items.
#ifndef COMERA_WORKER_TRAINER_DATA_RANDOM_TEXT_HASH_H_
#define COMERA_WORKER_TRAINER_DATA_RANDOM_TEXT_HASH_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "worker/trainer/data/random/counter_random.h"

namespace comera::trainer {

// FNV-1a, then scattered.
inline uint64_t HashText(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return MixBits(hash);
}

// In [0, 1): below the validation fraction, the item with this hash is held
// out.
inline double SplitPoint(uint64_t hash) {
  return static_cast<double>(hash >> 11) * 0x1p-53;
}

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_RANDOM_TEXT_HASH_H_
