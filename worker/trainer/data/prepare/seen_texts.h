#ifndef COMERA_WORKER_TRAINER_DATA_PREPARE_SEEN_TEXTS_H_
#define COMERA_WORKER_TRAINER_DATA_PREPARE_SEEN_TEXTS_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/numeric/int128.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "common/files.h"

namespace comera::trainer {

// Texts that were met, known by 128 bits of their SHA-256: about 32 bytes of
// memory each, however long they are.
class SeenTexts {
 public:
  // Adds a text; false if it was there.
  bool Add(absl::string_view text) { return hashes_.insert(Hash(text)).second; }

 private:
  static absl::uint128 Hash(absl::string_view text) {
    const std::string digest = Sha256Hex({text.data(), text.size()});
    uint64_t high = 0, low = 0;
    // Both are digits that Sha256Hex wrote.
    (void)absl::SimpleHexAtoi(absl::string_view(digest).substr(0, 16), &high);
    (void)absl::SimpleHexAtoi(absl::string_view(digest).substr(16, 16), &low);
    return absl::MakeUint128(high, low);
  }

  absl::flat_hash_set<absl::uint128> hashes_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_PREPARE_SEEN_TEXTS_H_
