// Runs the input embedding and the blocks of an encoder, there and back.
#include "worker/trainer/model/encoder/encoder.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/plan/batch_padding.h"

namespace comera::trainer {

using kernels::ConstMatrix;
using kernels::Matrix;

Encoder::Encoder(const Plan& plan)
    : plan_(plan),
      embedding_(plan.AtStage(0)),
      packed_(plan.max_sequences, plan.max_rows, plan.config->max_positions),
      head_runs_(LteHeads(*plan.config), plan.max_batch) {
  for (int i = 0; i < static_cast<int>(plan.config->layers); ++i) {
    attention_.push_back(std::make_unique<AttentionBlock>(
        plan.AtStage(1 + 2 * i), i, &head_runs_));
    ffn_.push_back(
        std::make_unique<FfnBlock>(plan.AtStage(2 + 2 * i), i, &head_runs_));
  }
  const int64_t row_bytes = plan.max_rows * int64_t{sizeof(float)};
  offsets_ = plan.memory->whole()->Reserve(
      "offsets", (plan.max_sequences + 1) * int64_t{sizeof(int32_t)});
  row_ids_ = plan.memory->whole()->Reserve("row_ids", row_bytes);
  const int64_t stream = row_bytes * plan.config->hidden;
  stream_ = plan.memory->whole()->Reserve("encoder.stream", stream);
  grad_ = plan.memory->gradients()->Reserve("encoder.grad", stream);
}

absl::Status Encoder::SetBatch(const Batch& batch, Step* step) {
  RETURN_IF_ERROR(packed_.Set(batch));
  head_runs_.Set(batch, packed_);
  if (step->padded) {
    const int64_t tokens = PaddedCount(packed_.tokens(), plan_.max_rows);
    packed_.PadTo(tokens,
                  batch.size + PaddingSequences(tokens, plan_.max_rows,
                                                plan_.config->length),
                  plan_.config->length);
  }
  RETURN_IF_ERROR(embedding_.SetBatch(batch, packed_, step->padded));
  const auto copy = [&](SavedMemory::Piece piece,
                        const std::vector<int32_t>& from) {
    return plan_.backend->CopyToDevice(plan_.memory->whole()->Address(piece),
                                       from.data(),
                                       from.size() * sizeof(int32_t));
  };
  RETURN_IF_ERROR(copy(offsets_, packed_.offsets()));
  RETURN_IF_ERROR(copy(row_ids_, packed_.row_ids()));
  step->tokens = packed_.tokens();
  step->sequences = packed_.sequences();
  step->max_length = packed_.max_length();
  step->offsets = {plan_.memory->whole()->Ints(offsets_),
                   packed_.sequences() + 1};
  step->row_ids = plan_.memory->whole()->Ints(row_ids_);
  step->first_row = batch.first_sample * plan_.config->max_positions;
  step->length = batch.length;
  return absl::OkStatus();
}

void Encoder::AppendShape(const Step& step, std::vector<int64_t>* shape) const {
  shape->insert(
      shape->end(),
      {step.train, reinterpret_cast<intptr_t>(step.state), step.tokens,
       step.sequences, step.max_length, step.first_row, step.length});
  embedding_.AppendShape(shape);
  head_runs_.AppendShape(shape);
}

absl::Status Encoder::Forward(const Step& step) {
  const Matrix stream = Stream(step.rows());
  RETURN_IF_ERROR(embedding_.Forward(step, stream));
  for (size_t i = 0; i < ffn_.size(); ++i) {
    RETURN_IF_ERROR(attention_[i]->Forward(step, stream));
    RETURN_IF_ERROR(ffn_[i]->Forward(step, stream));
  }
  return absl::OkStatus();
}

Matrix Encoder::Stream(int64_t rows) const {
  return Matrix(plan_.memory->whole()->Floats(stream_), rows,
                plan_.config->hidden);
}

ConstMatrix Encoder::output(int64_t rows) const { return Stream(rows); }

Matrix Encoder::grad_output(int64_t rows) const {
  return Matrix(plan_.memory->gradients()->Floats(grad_), rows,
                plan_.config->hidden);
}

absl::Status Encoder::Backward(const Step& step) {
  for (int half = halves(); half-- > 0;) {
    RETURN_IF_ERROR(BackwardHalf(step, half));
  }
  return BackwardEmbedding(step);
}

absl::Status Encoder::BackwardHalf(const Step& step, int half) {
  const Matrix grad = grad_output(step.rows());
  const Matrix scratch = Stream(step.rows());
  const size_t i = half / 2;
  if (half % 2 == 1) {
    return ffn_[i]->Backward(step, attention_[i]->output(step), grad, scratch);
  }
  if (i > 0) {
    return attention_[i]->Backward(step, ffn_[i - 1]->output(step), grad,
                                   scratch);
  }
  RETURN_IF_ERROR(embedding_.Output(step, scratch));
  return attention_[0]->Backward(step, {scratch, {}, {}}, grad, scratch);
}

absl::Status Encoder::BackwardEmbedding(const Step& step) {
  return embedding_.Backward(step, grad_output(step.rows()));
}

}  // namespace comera::trainer
