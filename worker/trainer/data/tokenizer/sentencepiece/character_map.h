#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_CHARACTER_MAP_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_CHARACTER_MAP_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace comera::trainer {

// Rules of a SentencePiece model, such as NFKC: strings and what replaces each.
//
// In the model they are 4 bytes (little endian) with the size of a double array
// as darts-clone (github.com/s-yata/darts-clone) lays it out, the array, and
// the replacements, each closed by a zero byte. The array's values are
// positions among the replacements.
//
// Thread safety: const methods may overlap. No contents make a search leave the
// array.
class CharacterMap {
 public:
  struct Match {
    size_t length = 0;  // bytes of the text; 0: no rule applies
    absl::string_view replacement;
  };

  // `bytes` as the model has them; "" is a map without rules. DataLoss: the
  // sizes do not fit, a replacement is not UTF-8.
  static absl::StatusOr<CharacterMap> Parse(absl::string_view bytes);

  // The longest rule for what `text` begins with.
  Match Longest(absl::string_view text) const;

 private:
  CharacterMap() = default;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_CHARACTER_MAP_H_
