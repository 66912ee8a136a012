#ifndef COMERA_WORKER_TRAINER_MODEL_DENSE_EMBEDDING_H_
#define COMERA_WORKER_TRAINER_MODEL_DENSE_EMBEDDING_H_

#include "worker/trainer/model/word_embedding.h"

namespace comera::trainer {

// The table as it is: parameter NAME.weight (vocabulary, hidden).
class DenseEmbedding : public WordEmbedding {
 public:
  DenseEmbedding(const Plan& plan, const std::string& name);

  absl::Status Forward(const Step& step, kernels::ConstIndices ids,
                       kernels::Matrix rows) override;
  absl::Status Backward(const Step& step, kernels::ConstIndices ids,
                        kernels::ConstMatrix grad_rows) override;

 private:
  kernels::Backend* const backend_;
  const Parameter& weight_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_DENSE_EMBEDDING_H_
