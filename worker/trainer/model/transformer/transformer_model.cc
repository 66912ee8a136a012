// A transformer with its head behind the Model interface.
#include "worker/trainer/model/transformer/transformer_model.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/together.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/head/make_head.h"
#include "worker/trainer/model/linear/initialise.h"
#include "worker/trainer/model/plan/batch_padding.h"

namespace comera::trainer {
namespace {

int64_t MaxSequences(const ModelConfig& config, int64_t batch_size) {
  // Every token may be a document, and where fewer are padding takes the place
  // of the others.
  if (config.causal()) return batch_size * config.length;
  if (!config.pad_batches) return batch_size;
  return batch_size +
         MaxPaddingSequences(batch_size * config.length, config.length);
}

}  // namespace

TransformerModel::TransformerModel(const ModelConfig& config,
                                   int64_t batch_size,
                                   kernels::Backend* backend,
                                   const MakeBody& make_body)
    : config_(config),
      batch_size_(batch_size),
      finish_last_(!backend->in_host_memory() && !config.gradients_by_block),
      layout_(MakeModelLayout(config)),
      blocks_(config, layout_.parameters),
      memory_(backend, TransformerBody::Stages(config) + 1, finish_last_),
      plan_(MakePlan(backend)),
      totals_(memory_.whole()->Reserve("totals", 3 * sizeof(float))),
      body_(make_body(plan_)),
      head_(MakeHead(plan_.AtStage(TransformerBody::Stages(config)))) {}

Plan TransformerModel::MakePlan(kernels::Backend* backend) {
  Plan plan;
  plan.backend = backend;
  plan.memory = &memory_;
  plan.config = &config_;
  plan.layout = &layout_;
  plan.max_batch = batch_size_;
  plan.max_rows = batch_size_ * config_.length;
  plan.max_sequences = MaxSequences(config_, batch_size_);
  plan = plan.AtStage(0);
  table_ = ExpandedTable::Create(plan);
  plan.table = table_.get();
  return plan;
}

absl::Status TransformerModel::Allocate() { return memory_.Commit(); }

int64_t TransformerModel::activation_bytes() const { return memory_.bytes(); }

void TransformerModel::Initialise(uint64_t seed, float* parameters) const {
  InitialiseParameters(config_, seed, parameters);
}

absl::Status TransformerModel::SetBatch(const Batch& batch, bool train,
                                        const kernels::StepState* state) {
  state_ = State::kIdle;
  if (batch.size < 1 || batch.size > batch_size_ ||
      batch.length != config_.length) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch: ", batch.size, " samples of ", batch.length,
        " tokens, planned for at most ", batch_size_, " of ", config_.length));
  }
  step_ = Step{};
  step_.train = train;
  step_.padded = train && config_.pad_batches;
  step_.state = state;
  if (table_ != nullptr) RETURN_IF_ERROR(table_->SetUp());
  RETURN_IF_ERROR(body_->SetBatch(batch, &step_));
  RETURN_IF_ERROR(head_->SetBatch(batch, body_->packed(), step_.padded));
  state_ = State::kBatchSet;
  return absl::OkStatus();
}

void TransformerModel::AppendShape(std::vector<int64_t>* shape) const {
  body_->AppendShape(step_, shape);
  shape->push_back(head_->label_rows());
}

absl::Status TransformerModel::Forward(const float* parameters) {
  if (state_ == State::kIdle) {
    return absl::FailedPreconditionError("Forward without a batch");
  }
  step_.parameters = parameters;
  float* totals = memory_.whole()->Floats(totals_);
  RETURN_IF_ERROR(plan_.backend->Fill({totals, 3}, 0));
  RETURN_IF_ERROR(kernels::RunTogether(plan_.backend,
                                       [&] { return body_->Contract(step_); }));
  if (table_ != nullptr) RETURN_IF_ERROR(table_->Expand(step_));
  RETURN_IF_ERROR(body_->Forward(step_));
  RETURN_IF_ERROR(head_->Forward(step_, body_->output(step_.rows()), totals));
  state_ = step_.train ? State::kBackwardReady : State::kForwardDone;
  return absl::OkStatus();
}

absl::Status TransformerModel::BeginBackward(const float* parameters) {
  if (state_ != State::kBackwardReady) {
    return absl::FailedPreconditionError(
        "Backward without a Forward in training");
  }
  state_ = State::kBackwardDone;
  step_.parameters = parameters;
  return absl::OkStatus();
}

absl::Status TransformerModel::BackwardEmbedding() {
  RETURN_IF_ERROR(body_->BackwardEmbedding(step_));
  return table_ == nullptr ? absl::OkStatus() : table_->FinishBackward(step_);
}

absl::Status TransformerModel::Backward(const float* parameters,
                                        float* gradients) {
  return BackwardBucket(parameters, gradients,
                        {0, layout_.parameters.trained_size()});
}

absl::Status TransformerModel::BackwardBucket(const float* parameters,
                                              float* gradients,
                                              const ParameterRange& bucket) {
  const int64_t end = bucket.first + bucket.size;
  if (end == layout_.parameters.trained_size()) {
    RETURN_IF_ERROR(BeginBackward(parameters));
    step_.gradients = gradients;
    step_.first_gradient = 0;
    step_.kept_gradients = nullptr;
    if (finish_last_) {
      RETURN_IF_ERROR(kernels::RunTogether(
          plan_.backend, [&] { return body_->BeginBackward(); }));
    }
    RETURN_IF_ERROR(head_->Backward(step_, body_->grad_output(step_.rows())));
  }
  // The halves that begin in the bucket, the last one first.
  const auto for_halves = [&](auto run) -> absl::Status {
    for (int half = body_->halves(); half-- > 0;) {
      const int64_t first = blocks_.half(half).first;
      if (first < bucket.first || first >= end) continue;
      RETURN_IF_ERROR(run(half));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(for_halves([&](int half) -> absl::Status {
    RETURN_IF_ERROR(body_->BackwardHalf(step_, half));
    return finish_last_ ? absl::OkStatus() : body_->FinishHalf(step_, half);
  }));
  if (bucket.first == 0) RETURN_IF_ERROR(BackwardEmbedding());
  if (!finish_last_) return absl::OkStatus();
  return kernels::RunTogether(plan_.backend, [&] {
    return for_halves([&](int half) { return body_->FinishHalf(step_, half); });
  });
}

absl::Status TransformerModel::BackwardByBlock(const float* parameters,
                                               kernels::Vector gradients,
                                               const BlockDone& done) {
  if (gradients.size != blocks_.buffer_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("BackwardByBlock: ", gradients.size, " floats for ",
                     blocks_.buffer_size()));
  }
  RETURN_IF_ERROR(BeginBackward(parameters));
  const kernels::Vector kept(gradients.data, blocks_.kept().size);
  RETURN_IF_ERROR(plan_.backend->Fill(kept, 0));
  step_.kept = blocks_.kept();
  step_.kept_gradients = kept.size > 0 ? kept.data : nullptr;
  // One piece of the pass, which completes the gradients of `block`.
  const auto run = [&](const ParameterRange& block,
                       auto backward) -> absl::Status {
    const kernels::Vector own(gradients.data + kept.size, block.size);
    RETURN_IF_ERROR(plan_.backend->Fill(own, 0));
    step_.gradients = own.data;
    step_.first_gradient = block.first;
    RETURN_IF_ERROR(backward());
    return done(block, own);
  };
  RETURN_IF_ERROR(run(blocks_.head(), [&] {
    return head_->Backward(step_, body_->grad_output(step_.rows()));
  }));
  for (int half = body_->halves(); half-- > 0;) {
    RETURN_IF_ERROR(run(blocks_.half(half), [&]() -> absl::Status {
      RETURN_IF_ERROR(body_->BackwardHalf(step_, half));
      return body_->FinishHalf(step_, half);
    }));
  }
  RETURN_IF_ERROR(
      run(blocks_.embedding(), [&] { return BackwardEmbedding(); }));
  return kept.size > 0 ? done(blocks_.kept(), kept) : absl::OkStatus();
}

absl::StatusOr<LossTotals> TransformerModel::ReadLoss() {
  if (state_ == State::kIdle || state_ == State::kBatchSet) {
    return absl::FailedPreconditionError("ReadLoss without a Forward");
  }
  if (state_ == State::kBackwardReady) {
    RETURN_IF_ERROR(head_->CompleteLoss(step_));
  }
  float totals[3];
  RETURN_IF_ERROR(
      plan_.backend->CopyToHost(totals, this->totals(), sizeof(totals)));
  RETURN_IF_ERROR(plan_.backend->Synchronize());
  return LossTotals{totals[0], totals[1], totals[2]};
}

absl::StatusOr<std::vector<float>> TransformerModel::ReadLogits() {
  // Backward reuses the memory.
  if (state_ != State::kForwardDone && state_ != State::kBackwardReady) {
    return absl::FailedPreconditionError("ReadLogits not after a Forward");
  }
  state_ = State::kForwardDone;
  std::vector<float> logits;
  RETURN_IF_ERROR(head_->ReadLogits(step_, &logits));
  RETURN_IF_ERROR(plan_.backend->Synchronize());
  return logits;
}

}  // namespace comera::trainer
