#ifndef COMERA_WORKER_TRAINER_MODEL_EMBEDDING_EXPANDED_EMBEDDING_H_
#define COMERA_WORKER_TRAINER_MODEL_EMBEDDING_EXPANDED_EMBEDDING_H_

#include <string>
#include <vector>

#include "worker/trainer/model/embedding/table_ids.h"
#include "worker/trainer/model/embedding/word_embedding.h"

namespace comera::trainer {

// Rows of the table that is expanded for input and output (Plan::table, not
// null), dense rows included.
class ExpandedEmbedding : public WordEmbedding {
 public:
  ExpandedEmbedding(const Plan& plan, const std::string& name, int64_t max_ids);

  absl::Status SetIds(absl::Span<const int32_t> ids,
                      int64_t padded_rows) override {
    return ids_.Set(ids, padded_rows);
  }
  void AppendShape(std::vector<int64_t>*) const override {}
  absl::Status Forward(const Step& step, kernels::Matrix rows) override;
  absl::Status Backward(const Step& step,
                        kernels::ConstMatrix grad_rows) override;

 private:
  kernels::Backend* const backend_;
  ExpandedTable& table_;
  TableIds ids_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_EMBEDDING_EXPANDED_EMBEDDING_H_
