#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_NORMALIZER_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_NORMALIZER_H_

#include <functional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/tokenizer/prefix_trie.h"
#include "worker/trainer/data/tokenizer/sentencepiece/character_map.h"
#include "worker/trainer/data/tokenizer/sentencepiece/model.h"

namespace comera::trainer {

// Text as a SentencePiece model wants it: its rules are applied, bytes that are
// not UTF-8 become U+FFFD, extra spaces go, a space may be put in front, and
// spaces are written U+2581, each if the model says so.
//
// Thread safety: const methods may overlap.
class SentencePieceNormalizer {
 public:
  // DataLoss: the model's rules.
  static absl::StatusOr<SentencePieceNormalizer> Create(
      const SentencePieceModel& model);

  // Calls emit(character) for each character of the normalized text.
  using Emit = std::function<void(absl::string_view character)>;
  void Normalize(absl::string_view text, const Emit& emit) const;

 private:
  SentencePieceNormalizer(const SentencePieceModel& model, CharacterMap rules);

  struct Step {
    size_t length = 0;  // bytes of the text
    absl::string_view result;
  };
  // Normalizes what `text`, which is not empty, begins with.
  Step First(absl::string_view text) const;

  bool add_dummy_prefix_;
  bool remove_extra_spaces_;
  absl::string_view space_;
  CharacterMap rules_;
  PrefixTrie user_defined_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_NORMALIZER_H_
