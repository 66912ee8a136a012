#ifndef COMERA_WORKER_TRAINER_MODEL_ATTENTION_BLOCK_H_
#define COMERA_WORKER_TRAINER_MODEL_ATTENTION_BLOCK_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "worker/trainer/model/linear.h"
#include "worker/trainer/model/plan.h"

namespace comera::trainer {

// y = LayerNorm(x + dropout(output(attention(query(x), key(x), value(x))))).
class AttentionBlock {
 public:
  AttentionBlock(const Plan& plan, int64_t layer);

  // x (rows, hidden) must stay until Backward; mask (batch, length) too.
  absl::Status Forward(const Step& step, kernels::ConstMatrix x,
                       const float* mask);
  kernels::ConstMatrix output(int64_t rows) const;
  // grad_x = gradient; not the same memory as grad_y.
  absl::Status Backward(const Step& step, kernels::ConstMatrix grad_y,
                        kernels::Matrix grad_x);

 private:
  kernels::Matrix Saved(kernels::Arena::Piece piece, int64_t rows) const;
  kernels::AttentionShape Shape(const Step& step) const;
  kernels::DropoutKey ProbabilityDropout(const Step& step) const;
  kernels::DropoutKey OutputDropout(const Step& step) const;

  const Plan plan_;
  const int64_t layer_;
  const int64_t hidden_;
  std::unique_ptr<Linear> query_, key_, value_, projection_;
  const Parameter &gamma_, &beta_;
  kernels::Arena::Piece q_, k_, v_, probabilities_, context_;
  kernels::Arena::Piece normalised_, deviation_, output_;
  Workspace::Piece branch_, inner_, attention_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_ATTENTION_BLOCK_H_
