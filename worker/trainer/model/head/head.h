#ifndef COMERA_WORKER_TRAINER_MODEL_HEAD_HEAD_H_
#define COMERA_WORKER_TRAINER_MODEL_HEAD_HEAD_H_

#include <vector>

#include "absl/status/status.h"
#include "kernels/tensor.h"
#include "worker/trainer/data/batch/batch.h"
#include "worker/trainer/model/plan/packed_batch.h"
#include "worker/trainer/model/plan/plan.h"

namespace comera::trainer {

// Computes a loss over label rows from a transformer's output.
class Head {
 public:
  virtual ~Head() = default;

  // Copies the labels to the device; `packed` is the packed form of `batch`.
  // `pad`: padded to a bucket (batch_padding.h) with rows that do not count.
  // InvalidArgument: malformed or too many labels.
  virtual absl::Status SetBatch(const Batch& batch, const PackedBatch& packed,
                                bool pad) = 0;
  // Label rows of the last SetBatch, padding included.
  virtual int64_t label_rows() const = 0;
  // Adds to totals (3 floats, see SoftmaxCrossEntropy). hidden (rows, hidden)
  // must stay until Backward. In training, what is added may be left to
  // Backward, which computes the same logits.
  virtual absl::Status Forward(const Step& step, kernels::ConstMatrix hidden,
                               float* totals) = 0;
  // Adds to the totals what Forward has left to Backward.
  virtual absl::Status CompleteLoss(const Step& /*step*/) {
    return absl::OkStatus();
  }
  // Writes the whole of grad_hidden.
  virtual absl::Status Backward(const Step& step,
                                kernels::Matrix grad_hidden) = 0;
  // Copies the logits of the last Forward (label rows that count, outputs) to
  // the host; no Backward may follow.
  virtual absl::Status ReadLogits(const Step& step,
                                  std::vector<float>* logits) = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_HEAD_HEAD_H_
