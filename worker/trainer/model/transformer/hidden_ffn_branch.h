#ifndef COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_HIDDEN_FFN_BRANCH_H_
#define COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_HIDDEN_FFN_BRANCH_H_

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/backend.h"
#include "worker/trainer/model/linear/linear.h"
#include "worker/trainer/model/transformer/branch.h"

namespace comera::trainer {

// A feed-forward branch with its hidden layer h (rows, ffn) in memory:
// down(h), h = f(up(x)) or, with a gate, h = f(gate(x)) * up(x).
//
// What `up` and `gate` give is kept, or, where both repeat cheaply, in row
// blocks that Backward computes again. So is h, but with a gate, which takes
// memory enough, it is in row blocks always.
class HiddenFfnBranch : public Branch {
 public:
  // `gate` may be null.
  HiddenFfnBranch(const Plan& plan, int64_t layer, kernels::Activation f,
                  std::unique_ptr<Linear> gate, std::unique_ptr<Linear> up,
                  std::unique_ptr<Linear> down);

  absl::Status Contract(const Step& step) override;
  absl::Status FinishBackward(const Step& step) override;
  absl::Status Forward(const Step& step, kernels::ConstMatrix x,
                       kernels::Matrix y) override;
  absl::Status Backward(const Step& step, kernels::ConstMatrix x,
                        kernels::ConstMatrix grad_y,
                        kernels::Matrix grad_x) override;

 private:
  // Memory of hidden rows: of all rows and kept, or of one block.
  struct Buffer {
    bool kept = false;
    SavedMemory::Piece all = 0;
    Workspace::Piece block = 0;
  };
  // Rows [first, first + count) of the hidden layer. Without a gate that
  // matrix is null.
  struct HiddenBlock {
    int64_t first = 0, count = 0;
    kernels::Matrix gate, up, activated;
  };

  Buffer Reserve(int64_t layer, const std::string& name, bool keep) const;
  kernels::Matrix Rows(const Buffer& buffer, int64_t first,
                       int64_t count) const;
  HiddenBlock Block(int64_t first, int64_t rows) const;
  absl::Status Activate(const HiddenBlock& block) const;
  absl::Status BlockBackward(const Step& step, const HiddenBlock& block,
                             kernels::ConstMatrix x,
                             kernels::ConstMatrix grad_y,
                             kernels::Matrix grad_x);

  const Plan plan_;
  const int64_t width_;
  const kernels::Activation f_;
  const std::unique_ptr<Linear> gate_, up_, down_;
  const bool keep_;
  const int64_t block_rows_;
  Buffer gate_rows_, up_rows_, activated_rows_, grad_rows_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_TRANSFORMER_HIDDEN_FFN_BRANCH_H_
