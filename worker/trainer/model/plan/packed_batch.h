#ifndef COMERA_WORKER_TRAINER_MODEL_PLAN_PACKED_BATCH_H_
#define COMERA_WORKER_TRAINER_MODEL_PLAN_PACKED_BATCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "worker/trainer/data/batch/batch.h"

namespace comera::trainer {

// The tokens of a batch without the padding of its samples: one sequence after
// another, the longest first, equal ones in their order. Padding then costs
// nothing, and results are those of the padded batch: a token keeps the numbers
// by which dropout and the table of positions know it, whatever it is padded
// to.
//
// A sequence is what attends to itself only: a sample, or one of the documents
// that a sample consists of.
//
// A batch may then be padded to a number of tokens and sequences
// (batch_padding.h): with copies of its tokens in sequences of their own, whose
// results nobody reads, and with empty sequences.
//
// Allocates when made and not again for batches of no more samples and tokens.
class PackedBatch {
 public:
  // row_stride: at least the length of any sample; the same for all lengths
  // that a run has. by_document: batch.segments numbers the documents of each
  // sample, from 0 and not falling; of these there are at most max_sequences.
  PackedBatch(int64_t max_sequences, int64_t max_tokens, int64_t row_stride,
              bool by_document = false);

  // InvalidArgument, and the batch before stays: the mask has another size
  // than the batch, or something else than ones followed by zeros in a sample;
  // likewise the segments, where they number documents; samples were dealt of a
  // global batch whose rows do not fit 32 bits.
  absl::Status Set(const Batch& batch);
  // Appends sequences of at most `length` tokens until there are so many tokens
  // and sequences; a batch without tokens stays as it is. TokenAt does not know
  // the padding, the lists below do.
  void PadTo(int64_t tokens, int64_t sequences, int64_t length);

  int64_t tokens() const { return static_cast<int64_t>(places_.size()); }
  // Sequences that have a token, and the padding.
  int64_t sequences() const {
    return static_cast<int64_t>(offsets_.size()) - 1;
  }
  int64_t max_length() const { return max_length_; }
  // (sequences + 1): sequence i is tokens [offsets[i], offsets[i + 1]).
  const std::vector<int32_t>& offsets() const { return offsets_; }
  // (tokens): sample * length + position, the row in the padded batch.
  const std::vector<int32_t>& places() const { return places_; }
  // (tokens): sample * row_stride + position, the token's row of a dropout,
  // counted from first_row().
  const std::vector<int32_t>& row_ids() const { return row_ids_; }
  // The row, among those of the global batch, that row_ids() counts from: that
  // of the batch's first sample, or 0 where the samples were dealt.
  int64_t first_row() const { return first_row_; }
  // (tokens), split by document only: the token's place in its sequence; of
  // padding anything below the length of a sample.
  const std::vector<int32_t>& positions() const { return positions_; }
  // The token at a row of the padded batch, -1 for padding.
  int32_t TokenAt(int64_t row) const { return token_at_[row]; }

 private:
  // Tokens of the padded batch, from row `place` on.
  struct Sequence {
    int32_t place = 0;
    int32_t length = 0;
  };

  // Fills sequences_, in the order of the batch.
  absl::Status FindSequences(const Batch& batch);
  // InvalidArgument: the document of row `row` cannot follow that of the row
  // before.
  absl::Status CheckDocument(const Batch& batch, int64_t row) const;

  const int64_t row_stride_;
  const bool by_document_;
  int64_t max_length_ = 0;
  int64_t first_row_ = 0;
  std::vector<int32_t> offsets_, places_, row_ids_, positions_, token_at_;
  std::vector<Sequence> sequences_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_PLAN_PACKED_BATCH_H_
