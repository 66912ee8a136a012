#ifndef COMERA_WORKER_TRAINER_MODEL_HEAD_CLASSIFIER_HEAD_H_
#define COMERA_WORKER_TRAINER_MODEL_HEAD_CLASSIFIER_HEAD_H_

#include <memory>
#include <vector>

#include "worker/trainer/model/head/head.h"
#include "worker/trainer/model/head/label_buffer.h"
#include "worker/trainer/model/linear/dense_linear.h"
#include "worker/trainer/model/linear/linear.h"

namespace comera::trainer {

// fc2(tanh(fc1(h[CLS]))), softmax cross-entropy; one label per sample at most.
class ClassifierHead : public Head {
 public:
  explicit ClassifierHead(const Plan& plan);

  absl::Status SetBatch(const Batch& batch, const PackedBatch& packed,
                        bool pad) override;
  int64_t label_rows() const override { return labels_.size(); }
  absl::Status Forward(const Step& step, kernels::ConstMatrix hidden,
                       float* totals) override;
  absl::Status Backward(const Step& step, kernels::Matrix grad_hidden) override;
  absl::Status ReadLogits(const Step& step,
                          std::vector<float>* logits) override;

 private:
  kernels::Matrix Saved(SavedMemory::Piece piece, int64_t cols) const;

  const Plan plan_;
  const int64_t hidden_, classes_;
  LabelBuffer labels_;
  std::unique_ptr<Linear> fc1_;
  DenseLinear fc2_;
  SavedMemory::Piece pooled_, activated_, logits_, grad_logits_;
  SavedMemory::Piece grad_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_HEAD_CLASSIFIER_HEAD_H_
