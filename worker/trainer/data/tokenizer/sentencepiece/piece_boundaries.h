#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_PIECE_BOUNDARIES_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_PIECE_BOUNDARIES_H_

#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "worker/trainer/data/tokenizer/sentencepiece/model.h"

namespace comera::trainer {

// Knows which characters stand side by side in a piece of a model. Between two
// that never do every segmentation has a boundary, so what lies before and
// behind can be segmented by itself.
//
// Thread safety: const methods may overlap.
class PieceBoundaries {
 public:
  explicit PieceBoundaries(const SentencePieceModel& model);

  // Whether no piece has `left` directly before `right` (code points).
  bool Between(int32_t left, int32_t right) const;

 private:
  // left << 32 | right
  absl::flat_hash_set<uint64_t> neighbours_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_PIECE_BOUNDARIES_H_
