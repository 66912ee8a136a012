// Fills in the defaults of a job, some of which depend on the model or the
// method.

#include "proto/job_defaults.h"

#include <algorithm>
#include <cstdint>

#include "proto/dlrm_defaults.h"
#include "proto/model_family.h"

namespace comera {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// The usual widths: a LLaMA's has a third matrix, and as many weights with two
// thirds of the width.
int64_t DefaultFfn(const v1::ModelSpec& model) {
  if (!IsLlama(model)) return 4 * model.hidden();
  return (model.hidden() + 11) / 12 * 32;
}

void FillDecoder(v1::ModelSpec& model) {
  if (model.architecture() == v1::ModelSpec::ARCHITECTURE_UNSPECIFIED) {
    model.set_architecture(v1::ModelSpec::LLAMA);
  }
  if (!model.has_norm_epsilon()) model.set_norm_epsilon(1e-5);
  if (!model.has_dropout()) model.set_dropout(0);
  if (IsGpt2(model)) {
    model.set_tie_output(true);
    return;
  }
  if (model.kv_heads() == 0) model.set_kv_heads(model.heads());
  if (!model.has_rope_theta()) model.set_rope_theta(1e4);
}

void FillTransformer(v1::JobSpec& spec) {
  v1::ModelSpec& model = *spec.mutable_model();
  if (model.ffn() == 0) model.set_ffn(DefaultFfn(model));
  if (model.max_positions() == 0) {
    model.set_max_positions(spec.data().max_length());
  }
  if (model.family() == v1::ModelSpec::CAUSAL_LM) return FillDecoder(model);
  if (model.segments() == 0) model.set_segments(2);
  // Without labels either, the trainer counts those of the file.
  if (model.family() == v1::ModelSpec::ENCODER_CLASSIFIER &&
      model.classes() == 0) {
    model.set_classes(spec.data().labelled_text().labels_size());
  }
  if (!model.has_dropout()) {
    model.set_dropout(model.dropout_off() ? 0 : 0.1);
  }
}

void FillModel(v1::JobSpec& spec) {
  v1::ModelSpec& model = *spec.mutable_model();
  if (model.family() == v1::ModelSpec::DLRM) {
    FillDlrm(*model.mutable_dlrm());
    return;
  }
  FillTransformer(spec);
  // Workers of earlier versions know a dropout of 0 by this field alone.
  if (model.dropout() == 0) model.set_dropout_off(true);
}

void FillLabelledText(v1::DataSpec& data) {
  if (!data.has_labelled_text()) return;
  v1::LabelledText& labelled = *data.mutable_labelled_text();
  if (labelled.text().empty()) labelled.set_text("text");
  if (labelled.label().empty()) labelled.set_label("label");
  if (labelled.validation().empty() && !labelled.has_validation_fraction()) {
    labelled.set_validation_fraction(0.1);
  }
}

void FillText(v1::DataSpec& data) {
  if (!data.has_text()) return;
  v1::Text& text = *data.mutable_text();
  if (text.validation().empty() && !text.has_validation_fraction()) {
    text.set_validation_fraction(0.1);
  }
  if (text.field().empty()) text.set_field("text");
}

void FillTokenShards(v1::DataSpec& data) {
  if (!data.has_token_shards()) return;
  v1::TokenShards& shards = *data.mutable_token_shards();
  if (shards.validation().empty() && !shards.has_validation_fraction()) {
    shards.set_validation_fraction(0.01);
  }
}

void FillData(v1::JobSpec& spec) {
  v1::DataSpec& data = *spec.mutable_data();
  if (spec.model().family() == v1::ModelSpec::MASKED_LM &&
      !data.has_mask_probability()) {
    data.set_mask_probability(0.15);
  }
  if (data.has_glue_tsv()) {
    v1::GlueTsv& glue = *data.mutable_glue_tsv();
    if (!glue.has_sentence1_column()) glue.set_sentence1_column(8);
    if (!glue.has_sentence2_column()) glue.set_sentence2_column(9);
    if (!glue.has_label_column()) glue.set_label_column(-1);
  }
  if (data.has_code_directory()) {
    v1::CodeDirectory& code = *data.mutable_code_directory();
    if (!code.has_validation_fraction()) code.set_validation_fraction(0.05);
    if (!code.has_max_bytes()) code.set_max_bytes(64 * kMiB);
    if (!code.has_max_file_bytes()) code.set_max_file_bytes(kMiB);
  }
  FillLabelledText(data);
  FillText(data);
  FillTokenShards(data);
  FillClickLog(data);
  if (data.has_jsonl() && data.jsonl().fields().empty()) {
    data.mutable_jsonl()->add_fields("docstring");
    data.mutable_jsonl()->add_fields("code");
  }
  if (spec.model().family() == v1::ModelSpec::DLRM) return;
  v1::TokenizerSpec& tokenizer = *data.mutable_tokenizer();
  if (tokenizer.kind() == v1::TokenizerSpec::WORDPIECE &&
      !tokenizer.has_lowercase()) {
    tokenizer.set_lowercase(true);
  }
}

void FillLayer(v1::LayerCompression& layer) {
  if (!layer.dense() && layer.ranks().empty()) layer.add_ranks(30);
}

// Fills in the settings of the chosen method only: validation would refuse
// those of another.
void FillMethod(int64_t hidden, v1::CompressionSpec& compression) {
  if (compression.method() == v1::CompressionSpec::GALORE) {
    v1::GaloreSpec& galore = *compression.mutable_galore();
    if (!galore.has_rank()) galore.set_rank(128);
    if (!galore.has_refresh_every_steps()) {
      galore.set_refresh_every_steps(200);
    }
    if (!galore.has_scale()) galore.set_scale(0.25);
  } else if (compression.method() == v1::CompressionSpec::LORA) {
    v1::LoraSpec& lora = *compression.mutable_lora();
    if (!lora.has_rank()) lora.set_rank(32);
    if (!lora.has_alpha()) lora.set_alpha(static_cast<double>(lora.rank()));
  } else if (compression.method() == v1::CompressionSpec::LTE) {
    v1::LteSpec& lte = *compression.mutable_lte();
    if (!lte.has_rank()) lte.set_rank(32);
    if (!lte.has_heads()) lte.set_heads(32);
    if (!lte.has_scale()) lte.set_scale(128);
    if (!lte.has_merge_every_steps()) lte.set_merge_every_steps(10);
  } else if (compression.method() == v1::CompressionSpec::COLA) {
    v1::ColaSpec& cola = *compression.mutable_cola();
    if (!cola.has_rank()) cola.set_rank(std::max<int64_t>(1, hidden / 4));
    if (cola.nonlinearity() == v1::ColaSpec::NONLINEARITY_UNSPECIFIED) {
      cola.set_nonlinearity(v1::ColaSpec::BETWEEN_FACTORS);
    }
  }
}

void FillInnerActivation(v1::CompressionSpec& compression) {
  if (compression.inner_activation() ==
      v1::CompressionSpec::INNER_ACTIVATION_UNSPECIFIED) {
    compression.set_inner_activation(v1::CompressionSpec::IDENTITY);
  }
}

void FillCompression(v1::JobSpec& spec) {
  v1::CompressionSpec& compression = *spec.mutable_compression();
  if (compression.method() == v1::CompressionSpec::METHOD_UNSPECIFIED) {
    compression.set_method(v1::CompressionSpec::COMERA);
  }
  if (!compression.has_rank_threshold()) compression.set_rank_threshold(0.01);
  if (!compression.has_compact_every_steps()) {
    compression.set_compact_every_steps(50);
  }
  FillMethod(spec.model().hidden(), compression);
  if (compression.method() != v1::CompressionSpec::COMERA) return;
  if (spec.model().family() == v1::ModelSpec::DLRM) {
    FillLayer(*compression.mutable_table());
    FillLayer(*compression.mutable_mlp());
    return;
  }
  FillInnerActivation(compression);
  FillLayer(*compression.mutable_embedding());
  FillLayer(*compression.mutable_attention());
  FillLayer(*compression.mutable_ffn_up());
  FillLayer(*compression.mutable_ffn_down());
  if (HasHeadLayer(spec.model())) FillLayer(*compression.mutable_head());
  if (HasOutputLayer(spec.model())) FillLayer(*compression.mutable_output());
}

void FillObjective(v1::ObjectiveSpec& objective) {
  if (objective.kind() == v1::ObjectiveSpec::KIND_UNSPECIFIED) {
    objective.set_kind(v1::ObjectiveSpec::PARETO);
  }
  v1::EarlyStage& early = *objective.mutable_early();
  if (!early.has_gamma()) early.set_gamma(0.05);
  if (!early.has_beta()) early.set_beta(1e-5);
  if (!objective.has_late()) return;
  v1::LateStage& late = *objective.mutable_late();
  if (!late.has_w_loss()) late.set_w_loss(1);
  if (!late.has_w_size()) late.set_w_size(1);
  if (!late.has_rho()) late.set_rho(0.01);
  if (late.mode() == v1::LateStage::MODE_UNSPECIFIED) {
    late.set_mode(v1::LateStage::CONSTRAINT);
  }
}

// Tensor-train encoders learn best by Muon (docs/optimizer.md has the
// measurements), and decoders take the same. A rate for cores that stands alone
// was meant for AdamW, which was the only optimiser when job files had no kind.
v1::OptimizerSpec::Kind DefaultOptimizer(const v1::JobSpec& spec) {
  const bool muon =
      !spec.optimizer().has_learning_rate_cores() &&
      spec.compression().method() == v1::CompressionSpec::COMERA &&
      spec.objective().kind() == v1::ObjectiveSpec::PARETO &&
      spec.model().family() != v1::ModelSpec::DLRM;
  return muon ? v1::OptimizerSpec::MUON : v1::OptimizerSpec::ADAMW;
}

// Muon steps along directions of pure noise as far as along all others, and a
// label a sentence leaves many of those: at twice their rate classifiers of
// small ranks fell back to the class frequencies. Language models learn best at
// four times it, from width 128 to 512 (docs/optimizer.md).
double DefaultCoreRate(const v1::JobSpec& spec) {
  if (spec.optimizer().kind() != v1::OptimizerSpec::MUON) return 1e-3;
  return spec.model().family() == v1::ModelSpec::ENCODER_CLASSIFIER ? 2.5e-3
                                                                    : 1e-2;
}

void FillOptimizer(v1::JobSpec& spec) {
  v1::OptimizerSpec& optimizer = *spec.mutable_optimizer();
  const bool galore =
      spec.compression().method() == v1::CompressionSpec::GALORE;
  if (optimizer.kind() == v1::OptimizerSpec::KIND_UNSPECIFIED) {
    optimizer.set_kind(DefaultOptimizer(spec));
  }
  if (!optimizer.has_learning_rate_cores()) {
    optimizer.set_learning_rate_cores(DefaultCoreRate(spec));
  }
  if (!optimizer.has_learning_rate_ranks()) {
    optimizer.set_learning_rate_ranks(1e-2);
  }
  if (!optimizer.has_learning_rate_other()) {
    optimizer.set_learning_rate_other(1e-3);
  }
  if (optimizer.tables() == v1::OptimizerSpec::TABLES_UNSPECIFIED) {
    optimizer.set_tables(v1::OptimizerSpec::LAZY_ADAMW);
  }
  const bool fast_rows =
      optimizer.tables() == v1::OptimizerSpec::ROWWISE_ADAGRAD ||
      (spec.model().family() == v1::ModelSpec::CAUSAL_LM &&
       spec.compression().embedding().dense_tokens() > 0);
  if (fast_rows && !optimizer.has_learning_rate_tables()) {
    optimizer.set_learning_rate_tables(1e-2);
  }
  if (!optimizer.has_weight_decay()) optimizer.set_weight_decay(0);
  if (!optimizer.has_beta1()) optimizer.set_beta1(0.9);
  if (!optimizer.has_beta2()) optimizer.set_beta2(0.999);
  if (!optimizer.has_epsilon()) optimizer.set_epsilon(galore ? 1e-6 : 1e-8);
  // Layers that are updated one after the other have no norm to clip by, and
  // the published code of the method does not clip.
  const bool unclipped =
      spec.compression().galore().per_layer() ||
      spec.objective().kind() == v1::ObjectiveSpec::REFERENCE;
  if (!optimizer.has_clip_norm()) optimizer.set_clip_norm(unclipped ? 0 : 1);
  if (optimizer.decay() == v1::OptimizerSpec::WSD &&
      !optimizer.has_decay_fraction()) {
    optimizer.set_decay_fraction(0.2);
  }
}

void FillTraining(v1::JobSpec& spec) {
  v1::TrainingSpec& training = *spec.mutable_training();
  if (!training.has_report_every_steps()) training.set_report_every_steps(10);
  if (!training.has_validate_every_steps()) {
    training.set_validate_every_steps(100);
  }
  if (!training.has_validation_samples()) training.set_validation_samples(512);
  if (!training.has_accumulate()) training.set_accumulate(1);
  if (training.on_divergence() == v1::TrainingSpec::DIVERGENCE_UNSPECIFIED) {
    training.set_on_divergence(v1::TrainingSpec::FAIL);
  }
  int64_t steps = 0;
  for (v1::Phase& phase : *training.mutable_phases()) {
    if (phase.batch_size() == 0) phase.set_batch_size(training.batch_size());
    // Absurd numbers are left to validation to refuse.
    steps += std::clamp<int64_t>(phase.steps(), 0, 1'000'000'000);
  }
  v1::EarlyStage& early = *spec.mutable_objective()->mutable_early();
  if (early.steps() == 0 && steps > 0) early.set_steps(steps);
}

}  // namespace

v1::JobSpec WithDefaults(v1::JobSpec spec) {
  if (spec.has_program()) {
    v1::ProgramSpec& program = *spec.mutable_program();
    if (program.python().empty()) program.set_python("/usr/bin/python3");
  } else {
    FillModel(spec);
    FillData(spec);
    FillCompression(spec);
    FillObjective(*spec.mutable_objective());
    FillOptimizer(spec);
    FillTraining(spec);
  }
  if (spec.resources().processes() == 0)
    spec.mutable_resources()->set_processes(1);
  if (spec.queue().empty()) spec.set_queue("default");
  v1::RetryBudget& retries = *spec.mutable_retries();
  if (!retries.has_infrastructure()) retries.set_infrastructure(3);
  if (!retries.has_training()) retries.set_training(0);
  v1::CheckpointSpec& checkpoint = *spec.mutable_checkpoint();
  if (!checkpoint.has_every_steps()) checkpoint.set_every_steps(100);
  if (!checkpoint.has_keep()) checkpoint.set_keep(2);
  if (!checkpoint.has_replicas()) checkpoint.set_replicas(1);
  if (!checkpoint.has_durable()) checkpoint.set_durable(true);
  if (!checkpoint.has_snapshot_every_steps()) {
    checkpoint.set_snapshot_every_steps(10);
  }
  return spec;
}

}  // namespace comera
