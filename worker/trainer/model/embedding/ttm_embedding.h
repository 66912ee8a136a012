#ifndef COMERA_WORKER_TRAINER_MODEL_EMBEDDING_TTM_EMBEDDING_H_
#define COMERA_WORKER_TRAINER_MODEL_EMBEDDING_TTM_EMBEDDING_H_

#include <optional>
#include <string>
#include <vector>

#include "kernels/contraction/ttm_chain.h"
#include "kernels/contraction/ttm_index.h"
#include "worker/trainer/model/embedding/word_embedding.h"
#include "worker/trainer/model/linear/folded_cores.h"

namespace comera::trainer {

// A table in TTM form (REFERENCE.md, "TTM lookup"): what rows have in common
// is contracted once per step (TtmPlan). With all ranks 0 every row is 0.
class TtmEmbedding : public WordEmbedding {
 public:
  TtmEmbedding(const Plan& plan, const std::string& name,
               const Factorisation& factorisation, int64_t max_ids);

  using WordEmbedding::SetIds;
  absl::Status SetIds(absl::Span<const int32_t> ids,
                      int64_t padded_rows) override;
  void AppendShape(std::vector<int64_t>* shape) const override;
  absl::Status Forward(const Step& step, kernels::Matrix rows) override;
  absl::Status Backward(const Step& step,
                        kernels::ConstMatrix grad_rows) override;

 private:
  const Plan plan_;
  FoldedCores cores_;
  const int64_t max_ids_;
  int64_t rows_ = 1;  // the product of the table's row modes
  // The lists of the index, on the device.
  int32_t* Lists() const { return plan_.memory->whole()->Ints(lists_); }

  std::optional<kernels::TtmChain> chain_;  // none if pruned
  std::optional<kernels::TtmIndex> index_;  // none if pruned
  SavedMemory::Piece lists_, kept_;
  Workspace::Piece grad_blocks_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_EMBEDDING_TTM_EMBEDDING_H_
