#ifndef COMERA_WORKER_TRAINER_MODEL_HEAD_LANGUAGE_MODEL_HEAD_H_
#define COMERA_WORKER_TRAINER_MODEL_HEAD_LANGUAGE_MODEL_HEAD_H_

#include <memory>
#include <vector>

#include "worker/trainer/model/head/head.h"
#include "worker/trainer/model/head/label_buffer.h"
#include "worker/trainer/model/linear/linear.h"
#include "worker/trainer/model/linear/row_norm.h"

namespace comera::trainer {

// output(norm(t)) at the label rows, softmax cross-entropy over the vocabulary;
// t is gelu(transform(h)) in a masked LM, and h itself in a causal one.
//
// Logits are large and their number varies, so label rows go in chunks of a
// fixed size and no more than one chunk is kept. In training with several
// chunks Forward leaves their logits and the loss to Backward. With the usual
// 15% of labels of a masked LM there is one chunk, or few.
class LanguageModelHead : public Head {
 public:
  explicit LanguageModelHead(const Plan& plan);

  absl::Status SetBatch(const Batch& batch, const PackedBatch& packed,
                        bool pad) override;
  int64_t label_rows() const override { return labels_.size(); }
  absl::Status Forward(const Step& step, kernels::ConstMatrix hidden,
                       float* totals) override;
  absl::Status CompleteLoss(const Step& step) override;
  absl::Status Backward(const Step& step, kernels::Matrix grad_hidden) override;
  absl::Status ReadLogits(const Step& step,
                          std::vector<float>* logits) override;

 private:
  int64_t chunks() const;
  absl::Status ComputeLoss(const Step& step);
  int64_t ChunkSize(int64_t chunk) const;
  kernels::Matrix Saved(SavedMemory::Piece piece, int64_t rows,
                        int64_t cols) const;
  // t of a chunk, then its normalised rows in the same place.
  kernels::Matrix Normalised(int64_t rows) const;
  // The chunk's logits into logits_.
  absl::Status RunChunk(const Step& step, int64_t chunk);
  absl::Status ChunkLoss(const Step& step, int64_t chunk, float* totals);
  absl::Status ChunkBackward(const Step& step, int64_t chunk,
                             kernels::Matrix grad_hidden);

  const Plan plan_;
  const int64_t hidden_, vocabulary_;
  const int64_t chunk_rows_;
  LabelBuffer labels_;
  const std::unique_ptr<Linear> transform_;  // null in a causal LM
  const std::unique_ptr<Linear> projection_;
  const RowNorm norm_;
  kernels::ConstMatrix encoded_;
  float* totals_ = nullptr;
  bool loss_left_ = false;  // to Backward
  // The chunk whose gradient of logits lies in logits_; -1: none.
  int64_t resident_chunk_ = -1;
  SavedMemory::Piece gathered_, deviation_, normed_, logits_;
  SavedMemory::Piece transformed_, activated_;  // masked LM
  SavedMemory::Piece grad_, other_grad_, unused_totals_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_HEAD_LANGUAGE_MODEL_HEAD_H_
