#ifndef COMERA_WORKER_TRAINER_MODEL_PLAN_GRADIENT_BLOCKS_H_
#define COMERA_WORKER_TRAINER_MODEL_PLAN_GRADIENT_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/parameter_layout.h"

namespace comera::trainer {

// The blocks of a transformer's parameters whose gradients one piece of the
// backward pass completes: the head, the two halves of every transformer block,
// and the input embedding. The backward pass reads the parameters of a block in
// its own piece and in earlier ones only, so that a block may be updated as
// soon as its piece is done: in an encoder an earlier piece reads the LayerNorm
// of the half before it, from which it computes its input again.
//
// A word table that is the output projection too (model.tie_output) has
// gradients from the first piece and from the last. It is in none of the
// blocks: its gradients are kept through the whole pass.
class GradientBlocks {
 public:
  // `layout` is the one that belongs to `config`, which is no DLRM's.
  GradientBlocks(const ModelConfig& config, const ParameterLayout& layout);

  const ParameterRange& embedding() const { return embedding_; }
  // The attention of layer half / 2 where `half` is even, else its feed-forward
  // branch; each with its norm.
  const ParameterRange& half(int half) const { return halves_[half]; }
  const ParameterRange& head() const { return head_; }
  // The tied table; empty without one.
  const ParameterRange& kept() const { return kept_; }

  // See Model::GradientBuckets. A bucket holds whole halves. The first one holds
  // the head too, and the last one the embedding with the tied table.
  std::vector<ParameterRange> Buckets(int64_t floats) const;

  // The floats of a buffer for the kept gradients and, behind them, those of
  // one block at a time.
  int64_t buffer_size() const { return kept_.size + largest_; }

 private:
  ParameterRange kept_, embedding_, head_;
  std::vector<ParameterRange> halves_;
  int64_t largest_ = 0;
  int64_t trained_size_ = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_PLAN_GRADIENT_BLOCKS_H_
