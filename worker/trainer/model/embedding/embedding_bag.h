#ifndef COMERA_WORKER_TRAINER_MODEL_EMBEDDING_EMBEDDING_BAG_H_
#define COMERA_WORKER_TRAINER_MODEL_EMBEDDING_EMBEDDING_BAG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/tensor.h"
#include "worker/trainer/model/embedding/word_embedding.h"
#include "worker/trainer/model/plan/plan.h"
#include "worker/trainer/model/plan/unique_ids.h"

namespace comera::trainer {

// Sums of table rows, one sum per bag of ids: the categorical input of a DLRM.
// The table is dense or TTM, as the configuration says; each distinct id of a
// batch is looked up once. A step: SetBatch, Forward, Backward.
//
//   EmbeddingBag bag(plan, "tables.3", max_ids, max_bags);  // then commit
//   RETURN_IF_ERROR(bag.SetBatch(ids, offsets));
//   RETURN_IF_ERROR(bag.Forward(step, out));
//   RETURN_IF_ERROR(bag.Backward(step, grad_out));
class EmbeddingBag {
 public:
  // `key` is an embedding layer of plan.config; a batch has at most max_ids ids
  // and max_bags bags.
  EmbeddingBag(const Plan& plan, const std::string& key, int64_t max_ids,
               int64_t max_bags);

  // Bag b holds ids[offsets[b]] .. ids[offsets[b + 1]); an id may repeat and a
  // bag may be empty. Host memory, read before the call returns.
  // InvalidArgument: an id outside the table, more than planned, or offsets
  // that do not rise from 0 to ids.size().
  absl::Status SetBatch(absl::Span<const int32_t> ids,
                        absl::Span<const int32_t> offsets, bool pad = false);
  // The same with one id in every bag. `pad`: pads to as many distinct ids as
  // there can be.
  absl::Status SetBatch(absl::Span<const int32_t> ids, bool pad = false);
  // See Model::AppendShape; describes the last SetBatch.
  void AppendShape(std::vector<int64_t>* shape) const;

  int64_t width() const { return width_; }
  int64_t bags() const { return bags_; }

  // out (bags, width) = sums; an empty bag's is 0.
  absl::Status Forward(const Step& step, kernels::Matrix out);
  // Adds to step.gradients the gradients of the cores or table rows that the
  // last Forward read.
  absl::Status Backward(const Step& step, kernels::ConstMatrix grad_out);

 private:
  kernels::Matrix UniqueRows() const;

  const Plan plan_;
  const std::string key_;
  const int64_t max_bags_;
  int64_t width_ = 0;
  std::unique_ptr<WordEmbedding> table_;
  UniqueIds unique_;
  int64_t max_unique_ = 0;
  int64_t ids_ = 0, bags_ = 0;
  int64_t distinct_ = 0;       // rows of table_, padding included
  std::vector<int32_t> each_;  // 0, 1, .. : offsets of bags of one id
  std::vector<int32_t> bag_of_id_, users_;
  // The row of each id among the distinct ones, cut into bags by offsets; the
  // bags by distinct row, cut by start.
  SavedMemory::Piece index_, offsets_, bag_users_, start_;
  Workspace::Piece rows_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_MODEL_EMBEDDING_EMBEDDING_BAG_H_
