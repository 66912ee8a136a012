#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_PIECE_SEGMENTER_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_PIECE_SEGMENTER_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

namespace comera::trainer {

// Cuts normalized text into the pieces of a SentencePiece model.
//
// Thread safety: const methods may overlap.
class PieceSegmenter {
 public:
  virtual ~PieceSegmenter() = default;

  // Appends the ids of `text`, which is UTF-8. A character that no piece has
  // becomes the pieces of its bytes, or the unknown piece.
  virtual void Append(absl::string_view text,
                      std::vector<int32_t>* ids) const = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_PIECE_SEGMENTER_H_
