// Looks rows up in a table that was expanded.
#include "worker/trainer/model/embedding/expanded_embedding.h"

#include "worker/trainer/model/embedding/expanded_table.h"

namespace comera::trainer {

ExpandedEmbedding::ExpandedEmbedding(const Plan& plan, const std::string& name,
                                     int64_t max_ids)
    : backend_(plan.backend),
      table_(*plan.table),
      ids_(plan, name, plan.config->vocabulary, max_ids) {}

absl::Status ExpandedEmbedding::Forward(const Step&, kernels::Matrix rows) {
  return backend_->GatherRows(table_.rows(), ids_.get(), rows);
}

absl::Status ExpandedEmbedding::Backward(const Step&,
                                         kernels::ConstMatrix grad_rows) {
  return table_.AddGradient(grad_rows, ids_.get());
}

}  // namespace comera::trainer
