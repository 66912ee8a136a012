#ifndef COMERA_WORKER_TRAINER_MODEL_EMBEDDING_TOKEN_LOOKUP_H_
#define COMERA_WORKER_TRAINER_MODEL_EMBEDDING_TOKEN_LOOKUP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "kernels/tensor.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/embedding/word_embedding.h"
#include "worker/trainer/model/plan/packed_batch.h"
#include "worker/trainer/model/plan/plan.h"
#include "worker/trainer/model/plan/unique_ids.h"

namespace comera::trainer {

// Rows of the word embedding (layer "embedding") for the tokens of a batch,
// looked up once per distinct id. The dense rows of a TTM table that is not
// expanded (Plan::table), if it has some, are parameters of their own, of which
// every batch reads all.
class TokenLookup {
 public:
  explicit TokenLookup(const Plan& plan);

  // Copies the ids of the tokens to the device; `packed` is the packed form of
  // `batch`. `pad`: pads the distinct ids to the largest number that so many
  // tokens can have, so that the shape does not depend on the ids.
  // InvalidArgument: an id is out of range, or there are not as many ids as
  // tokens.
  absl::Status SetBatch(const Batch& batch, const PackedBatch& packed,
                        bool pad);
  // See Model::AppendShape; describes the last SetBatch.
  void AppendShape(std::vector<int64_t>* shape) const;

  // y (rows, hidden) = the embedding row of each token.
  absl::Status Forward(const Step& step, kernels::Matrix y);
  absl::Status Backward(const Step& step, kernels::ConstMatrix grad);

 private:
  void OrderVocabulary(const std::vector<int32_t>& dense_tokens);
  // Sets the rows of words_: the distinct ids that follow the dense rows.
  absl::Status SetWords(bool pad);
  // The dense rows among `rows`, which are those of unique_, and the others,
  // which are those of words_.
  kernels::Matrix DenseOf(kernels::Matrix rows) const;
  kernels::Matrix OthersOf(kernels::Matrix rows) const;

  const Plan plan_;
  const int64_t hidden_;
  std::unique_ptr<WordEmbedding> words_;
  // The dense rows and their number; null and 0 if there are none.
  const Parameter* dense_rows_ = nullptr;
  int64_t dense_count_ = 0;
  // The vocabulary in the order of unique_: the tokens with dense rows first,
  // then the others, each by id; and the place of each id in that order. Empty
  // without dense rows.
  std::vector<int32_t> order_, place_of_id_;
  UniqueIds unique_;
  int64_t words_count_ = 0;         // rows of unique_, padding included
  std::vector<int32_t> ids_;        // one per token
  std::vector<int32_t> other_ids_;  // distinct ids without a dense row
  // The word of each token among the distinct ones; the tokens by word, and
  // where each word's tokens begin.
  SavedMemory::Piece word_index_, word_tokens_, word_start_;
  Workspace::Piece unique_table_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_EMBEDDING_TOKEN_LOOKUP_H_
