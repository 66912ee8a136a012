#ifndef COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_ORDINARY_ATTENTION_BRANCH_H_
#define COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_ORDINARY_ATTENTION_BRANCH_H_

#include <cstdint>
#include <memory>

#include "kernels/backend.h"
#include "worker/trainer/model/transformer/attention_projections.h"
#include "worker/trainer/model/transformer/branch.h"

namespace comera::trainer {

// Attention by queries, keys and values, whatever form the projections have.
// These and the heads' outputs are kept for Backward only where computing them
// again would cost much: not from tensor-train layers, which keep the rank
// vectors. In a decoder it is causal, and in a LLaMA queries and keys are
// turned by their positions.
class OrdinaryAttentionBranch : public Branch {
 public:
  OrdinaryAttentionBranch(const Plan& plan, int64_t layer,
                          AttentionProjections projections);

  absl::Status Contract(const Step& step) override;
  absl::Status FinishBackward(const Step& step) override;
  absl::Status Forward(const Step& step, kernels::ConstMatrix x,
                       kernels::Matrix y) override;
  absl::Status Backward(const Step& step, kernels::ConstMatrix x,
                        kernels::ConstMatrix grad_y,
                        kernels::Matrix grad_x) override;

 private:
  Linear& In(int part) const;  // the projection to query, key or value
  // Query, key or value (0, 1, 2), the heads' outputs, and Attention's sums:
  // kept, or in memory that all layers share. Once attended to, queries and
  // keys are turned.
  kernels::Matrix Projected(int part, int64_t rows) const;
  int64_t Width(int part) const { return part == 0 ? hidden_ : key_width_; }
  kernels::Matrix Context(int64_t rows) const;
  float* LogSum() const;
  // From what the projections gave to the heads' outputs.
  absl::Status Attend(const Step& step);
  // Turns queries and keys, or back (`inverse`) their gradients.
  absl::Status Rotate(const Step& step, bool inverse, kernels::Matrix query,
                      kernels::Matrix key) const;
  kernels::AttentionShape Shape(int64_t sequences, int64_t tokens,
                                int64_t max_length) const;
  kernels::AttentionShape Shape(const Step& step) const;

  const Plan plan_;
  const int64_t layer_;
  const int64_t hidden_, key_width_;
  const AttentionProjections projections_;
  bool keep_ = false;
  // Whether at least the context is kept, which saves a pass of attention: on a
  // device, which has memory for it (4 of 58 ms of CodeBERT-LARGE's step on an
  // H200) and whose AttentionBackward reads it, and where sequences are long.
  bool keep_context_ = false;
  SavedMemory::Piece kept_[3], kept_log_sum_, kept_context_;
  Workspace::Piece shared_, shared_log_sum_, branch_, inner_, attention_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_ORDINARY_ATTENTION_BRANCH_H_
