// Allocates the memory of keys and values.
#include "worker/trainer/generate/key_value_cache.h"

#include <algorithm>

#include "absl/memory/memory.h"
#include "common/status_macros.h"

namespace comera::trainer {

KeyValueCache::KeyValueCache(const std::vector<CacheColumns>& blocks,
                             int64_t length, int64_t slots,
                             kernels::Backend* backend)
    : blocks_(blocks), length_(length), slots_(slots), arena_(backend) {
  const int64_t column = slots * length * int64_t{sizeof(float)};
  for (const CacheColumns& block : blocks) {
    keys_.push_back(arena_.Reserve("cached keys", block.keys * column));
    values_.push_back(arena_.Reserve("cached values", block.values * column));
  }
}

absl::StatusOr<std::unique_ptr<KeyValueCache>> KeyValueCache::Create(
    const std::vector<CacheColumns>& blocks, int64_t length, int64_t max_slots,
    int64_t max_bytes, kernels::Backend* backend) {
  int64_t columns = 0;
  for (const CacheColumns& block : blocks) {
    columns += block.keys + block.values;
  }
  const int64_t slot = columns * length * int64_t{sizeof(float)};
  const int64_t slots =
      std::clamp<int64_t>(max_bytes / std::max<int64_t>(slot, 1), 1, max_slots);
  auto cache =
      absl::WrapUnique(new KeyValueCache(blocks, length, slots, backend));
  RETURN_IF_ERROR(cache->arena_.Commit());
  return cache;
}

}  // namespace comera::trainer
