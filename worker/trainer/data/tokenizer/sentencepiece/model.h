#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_MODEL_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_MODEL_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace comera::trainer {

// SentencePiece writes a space as this character, U+2581.
inline constexpr absl::string_view kSpacePiece = "\xe2\x96\x81";

// A SentencePiece model, checked.
struct SentencePieceModel {
  enum class Kind { kBpe, kUnigram };
  enum class Type : uint8_t {
    kNormal,
    kUnknown,
    // No text becomes this piece.
    kControl,
    // The piece is found in a text before anything else.
    kUserDefined,
    // The piece may be merged with others, but is no result.
    kUnused,
    kByte,
  };
  struct Piece {
    std::string text;
    float score = 0;
    Type type = Type::kNormal;

    // Whether characters of a text may become this piece.
    bool is_text() const {
      return type == Type::kNormal || type == Type::kUserDefined ||
             type == Type::kUnused;
    }
  };

  Kind kind = Kind::kBpe;
  // Piece of each id.
  std::vector<Piece> pieces;
  int32_t unknown = 0;
  // Control pieces; -1: there is none.
  int32_t begin = -1;
  int32_t end = -1;
  int32_t pad = -1;
  // Characters that no piece has become the pieces of their bytes.
  bool byte_fallback = false;
  // With byte_fallback: the piece of each byte, and the byte of a kByte piece.
  std::array<int32_t, 256> byte_ids = {};
  // How the unknown piece is written in a text.
  std::string unknown_text;

  // Normalization: rules (CharacterMap), then spaces.
  std::string character_map;
  bool add_dummy_prefix = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;

  // Appends the ids of a character that no piece has.
  void AppendUnknown(absl::string_view character,
                     std::vector<int32_t>* ids) const;
};

// Reads a model file's contents; `name` is for messages. DataLoss: malformed, a
// piece twice, empty, above 8,000 bytes, not UTF-8 or with a score that is not
// finite, no or two unknown pieces, byte pieces missing. InvalidArgument: a
// kind of model that is not supported.
absl::StatusOr<SentencePieceModel> ParseSentencePieceModel(
    absl::string_view contents, const std::string& name);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_MODEL_H_
