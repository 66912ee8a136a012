// Packs and pads a batch and copies its lists to the device.
#include "worker/trainer/model/transformer/batch_rows.h"

#include <algorithm>

#include "common/status_macros.h"
#include "worker/trainer/model/config/layer_table.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/batch_padding.h"

namespace comera::trainer {

BatchRows::BatchRows(const Plan& plan)
    : plan_(plan),
      packed_(plan.max_sequences, plan.max_rows, plan.config->max_positions,
              /*by_document=*/plan.config->causal()),
      head_runs_(LteHeads(*plan.config), plan.max_sequences) {
  constexpr int64_t kInt = sizeof(int32_t);
  SavedMemory& whole = *plan.memory->whole();
  offsets_ = whole.Reserve("offsets", (plan.max_sequences + 1) * kInt);
  row_ids_ = whole.Reserve("row_ids", plan.max_rows * kInt);
  positions_ = whole.Reserve("positions",
                             plan.config->causal() ? plan.max_rows * kInt : 0);
}

void BatchRows::Pad(const Batch& batch) {
  const int64_t length = plan_.config->length;
  const int64_t tokens = PaddedCount(packed_.tokens(), plan_.max_rows);
  const int64_t padding = PaddingSequences(tokens, plan_.max_rows, length);
  // Every batch has at most so many samples, but any number of documents, which
  // is padded too; no sequence with a token is left out, as each has one.
  const int64_t sequences =
      plan_.config->causal()
          ? PaddedCount(
                std::min(packed_.sequences() + padding, plan_.max_sequences),
                plan_.max_sequences)
          : batch.size + padding;
  packed_.PadTo(tokens, sequences, length);
}

absl::Status BatchRows::Set(const Batch& batch, Step* step) {
  RETURN_IF_ERROR(packed_.Set(batch));
  head_runs_.Set(batch, packed_);
  if (step->padded) Pad(batch);
  const SavedMemory& whole = *plan_.memory->whole();
  const auto copy = [&](SavedMemory::Piece piece,
                        const std::vector<int32_t>& from) {
    return plan_.backend->CopyToDevice(whole.Address(piece), from.data(),
                                       from.size() * sizeof(int32_t));
  };
  RETURN_IF_ERROR(copy(offsets_, packed_.offsets()));
  RETURN_IF_ERROR(copy(row_ids_, packed_.row_ids()));
  if (plan_.config->causal()) {
    RETURN_IF_ERROR(copy(positions_, packed_.positions()));
    step->positions = {whole.Ints(positions_), packed_.tokens()};
  }
  step->tokens = packed_.tokens();
  step->sequences = packed_.sequences();
  step->max_length = packed_.max_length();
  step->offsets = {whole.Ints(offsets_), packed_.sequences() + 1};
  step->row_ids = whole.Ints(row_ids_);
  step->first_row = packed_.first_row();
  step->length = batch.length;
  return absl::OkStatus();
}

void BatchRows::AppendShape(const Step& step,
                            std::vector<int64_t>* shape) const {
  shape->insert(
      shape->end(),
      {step.train, reinterpret_cast<intptr_t>(step.state), step.tokens,
       step.sequences, step.max_length, step.first_row, step.length});
  head_runs_.AppendShape(shape);
}

}  // namespace comera::trainer
