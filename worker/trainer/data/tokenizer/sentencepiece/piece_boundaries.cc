// Collects the neighbouring characters of a model's pieces.
#include "worker/trainer/data/tokenizer/sentencepiece/piece_boundaries.h"

#include "unicode/utf8.h"

namespace comera::trainer {
namespace {

uint64_t Pack(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 |
         static_cast<uint32_t>(right);
}

}  // namespace

PieceBoundaries::PieceBoundaries(const SentencePieceModel& model) {
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    if (!piece.is_text()) continue;
    const int64_t size = static_cast<int64_t>(piece.text.size());
    UChar32 left = -1;
    for (int64_t i = 0; i < size;) {
      UChar32 right = 0;
      U8_NEXT(piece.text.data(), i, size, right);
      if (left >= 0) neighbours_.insert(Pack(left, right));
      left = right;
    }
  }
}

bool PieceBoundaries::Between(int32_t left, int32_t right) const {
  return !neighbours_.contains(Pack(left, right));
}

}  // namespace comera::trainer
