#ifndef COMERA_WORKER_TRAINER_GENERATE_KEY_VALUE_CACHE_H_
#define COMERA_WORKER_TRAINER_GENERATE_KEY_VALUE_CACHE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/arena.h"
#include "kernels/backend.h"

namespace comera::trainer {

// Columns that a block's cache has for the keys and the values of a token; a
// block without attention has none.
struct CacheColumns {
  int64_t keys = 0, values = 0;
};

// Keys and values of the tokens of several texts, in a backend's memory. Text s
// has rows [s * length, (s + 1) * length) of every block's matrices.
class KeyValueCache {
 public:
  // Has as many slots of `length` tokens as fit into max_bytes, at least one
  // and at most max_slots. ResourceExhausted: not even one fits the backend.
  static absl::StatusOr<std::unique_ptr<KeyValueCache>> Create(
      const std::vector<CacheColumns>& blocks, int64_t length,
      int64_t max_slots, int64_t max_bytes, kernels::Backend* backend);

  int64_t slots() const { return slots_; }
  int64_t length() const { return length_; }
  int64_t bytes() const { return arena_.bytes(); }
  // (slots * length, columns).
  kernels::Matrix Keys(int64_t block) const {
    return Rows(keys_[block], blocks_[block].keys);
  }
  kernels::Matrix Values(int64_t block) const {
    return Rows(values_[block], blocks_[block].values);
  }

 private:
  KeyValueCache(const std::vector<CacheColumns>& blocks, int64_t length,
                int64_t slots, kernels::Backend* backend);
  kernels::Matrix Rows(kernels::Arena::Piece piece, int64_t columns) const {
    return kernels::Matrix(arena_.Floats(piece), slots_ * length_, columns);
  }

  const std::vector<CacheColumns> blocks_;
  const int64_t length_, slots_;
  kernels::Arena arena_;
  std::vector<kernels::Arena::Piece> keys_, values_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_GENERATE_KEY_VALUE_CACHE_H_
