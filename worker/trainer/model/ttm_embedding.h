#ifndef COMERA_WORKER_TRAINER_MODEL_TTM_EMBEDDING_H_
#define COMERA_WORKER_TRAINER_MODEL_TTM_EMBEDDING_H_

#include <optional>
#include <string>

#include "kernels/contraction/ttm_tables.h"
#include "worker/trainer/model/folded_cores.h"
#include "worker/trainer/model/word_embedding.h"

namespace comera::trainer {

// The table in TTM form (REFERENCE.md, "TTM lookup"): the cores' two half
// chains are contracted once per step, each row is one small product of both.
// With all ranks 0 every row is 0.
class TtmEmbedding : public WordEmbedding {
 public:
  TtmEmbedding(const Plan& plan, const std::string& name,
               const Factorisation& factorisation);

  absl::Status Forward(const Step& step, kernels::ConstIndices ids,
                       kernels::Matrix rows) override;
  absl::Status Backward(const Step& step, kernels::ConstIndices ids,
                        kernels::ConstMatrix grad_rows) override;

 private:
  const Plan plan_;
  FoldedCores cores_;
  std::optional<kernels::TtmTableChain> chain_;  // unless gone
  kernels::Arena::Piece kept_;
  Workspace::Piece grad_prefix_, grad_suffix_, chain_scratch_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_TTM_EMBEDDING_H_
