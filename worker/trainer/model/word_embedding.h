#ifndef COMERA_WORKER_TRAINER_MODEL_WORD_EMBEDDING_H_
#define COMERA_WORKER_TRAINER_MODEL_WORD_EMBEDDING_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "kernels/tensor.h"
#include "worker/trainer/model/plan.h"

namespace comera::trainer {

// Rows of the word table, in some form. Ids are distinct and in range: the
// caller looks every id of a batch up once and shares the row.
class WordEmbedding {
 public:
  virtual ~WordEmbedding() = default;

  // rows[i] = table[ids[i]]; rows is (ids.size, hidden).
  virtual absl::Status Forward(const Step& step, kernels::ConstIndices ids,
                               kernels::Matrix rows) = 0;
  // Of the last Forward.
  virtual absl::Status Backward(const Step& step, kernels::ConstIndices ids,
                                kernels::ConstMatrix grad_rows) = 0;
};

// The form that the configuration names. max_ids: of one Forward.
std::unique_ptr<WordEmbedding> MakeWordEmbedding(const Plan& plan,
                                                 int64_t max_ids);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_WORD_EMBEDDING_H_
