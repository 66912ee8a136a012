// Checks the settings of methods other than COMERA.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/job_defaults.h"
#include "proto/model_size.h"
#include "proto/validation/job_validation.h"
#include "tests/proto/sample_specs.h"
#include "tests/proto/validation/bad_specs.h"

namespace comera {
namespace {

using Compression = v1::CompressionSpec;

// The masked language model (hidden 48) under another method: that field and
// the targets change, while COMERA's modes may stay.
Spec Under(Compression::Method method) {
  Spec spec = MaskedLmSpec();
  spec.mutable_compression()->set_method(method);
  spec.mutable_objective()->clear_late();
  return spec;
}

TEST(MethodValidationTest, OneFieldSwitchesTheMethod) {
  for (auto method : {Compression::DENSE, Compression::GALORE,
                      Compression::LORA, Compression::LTE, Compression::COLA}) {
    EXPECT_EQ(Describe(ValidateJobSpec(Under(method))), "")
        << Compression::Method_Name(method);
  }
}

TEST(MethodValidationTest, DefaultsAreThoseOfTheMethodAlone) {
  const Spec galore = WithDefaults(Under(Compression::GALORE));
  EXPECT_EQ(galore.compression().galore().rank(), 128);
  EXPECT_EQ(galore.compression().galore().refresh_every_steps(), 200);
  EXPECT_EQ(galore.compression().galore().scale(), 0.25);
  EXPECT_EQ(galore.optimizer().epsilon(), 1e-6);
  EXPECT_FALSE(galore.compression().has_lora());
  const Spec lora = WithDefaults(Under(Compression::LORA));
  EXPECT_EQ(lora.compression().lora().rank(), 32);
  EXPECT_EQ(lora.compression().lora().alpha(), 32);
  EXPECT_EQ(lora.optimizer().epsilon(), 1e-8);
  const Spec lte = WithDefaults(Under(Compression::LTE));
  EXPECT_EQ(lte.compression().lte().rank(), 32);
  EXPECT_EQ(lte.compression().lte().heads(), 32);
  EXPECT_EQ(lte.compression().lte().scale(), 128);
  EXPECT_EQ(lte.compression().lte().merge_every_steps(), 10);
  const Spec cola = WithDefaults(Under(Compression::COLA));
  EXPECT_EQ(cola.compression().cola().rank(), 12);
  EXPECT_FALSE(cola.compression().has_galore());
}

TEST(MethodValidationTest, MuonIsTheOptimiserOfTensorTrainEncoders) {
  Spec spec = Under(Compression::COMERA);
  spec.mutable_model()->set_family(v1::ModelSpec::ENCODER_CLASSIFIER);
  const Spec classifier = WithDefaults(spec);
  EXPECT_EQ(classifier.optimizer().kind(), v1::OptimizerSpec::MUON);
  EXPECT_EQ(classifier.optimizer().learning_rate_cores(), 2.5e-3);
  spec.mutable_model()->set_family(v1::ModelSpec::MASKED_LM);
  const Spec comera = WithDefaults(spec);
  EXPECT_EQ(comera.optimizer().kind(), v1::OptimizerSpec::MUON);
  EXPECT_EQ(comera.optimizer().learning_rate_cores(), 1e-2);
  EXPECT_EQ(WithDefaults(comera).SerializeAsString(),
            comera.SerializeAsString());
  const Spec dense = WithDefaults(Under(Compression::DENSE));
  EXPECT_EQ(dense.optimizer().kind(), v1::OptimizerSpec::ADAMW);
  EXPECT_EQ(dense.optimizer().learning_rate_cores(), 1e-3);
  // A rate without a kind is one for AdamW.
  Spec rate = Under(Compression::COMERA);
  rate.mutable_optimizer()->set_learning_rate_cores(2e-3);
  EXPECT_EQ(WithDefaults(rate).optimizer().kind(), v1::OptimizerSpec::ADAMW);
  Spec published = Under(Compression::COMERA);
  published.mutable_objective()->set_kind(v1::ObjectiveSpec::REFERENCE);
  EXPECT_EQ(WithDefaults(published).optimizer().kind(),
            v1::OptimizerSpec::ADAMW);
}

TEST(MethodValidationTest, MuonGoesWithMatricesAsTheyAre) {
  const auto muon = [](Spec& s) {
    s.mutable_optimizer()->set_kind(v1::OptimizerSpec::MUON);
  };
  for (auto method :
       {Compression::COMERA, Compression::DENSE, Compression::COLA}) {
    Spec spec = Under(method);
    muon(spec);
    EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
  }
  for (auto method :
       {Compression::GALORE, Compression::LORA, Compression::LTE}) {
    ExpectRefused(Under(method), {{"optimizer.kind", muon}});
  }
  ExpectRefused(
      Under(Compression::COMERA),
      {{"optimizer.kind", [&](Spec& s) {
          muon(s);
          s.mutable_objective()->set_kind(v1::ObjectiveSpec::REFERENCE);
        }}});
}

TEST(MethodValidationTest, UpdatesOfEachLayerAreForOneUnclippedProcess) {
  Spec spec = Under(Compression::GALORE);
  spec.mutable_resources()->clear_processes();
  spec.mutable_optimizer()->clear_clip_norm();
  EXPECT_EQ(WithDefaults(spec).optimizer().clip_norm(), 1);
  spec.mutable_compression()->mutable_galore()->set_per_layer(true);
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
  EXPECT_EQ(WithDefaults(spec).optimizer().clip_norm(), 0);
  ExpectRefused(
      spec, {{"optimizer.clip_norm",
              [](Spec& s) { s.mutable_optimizer()->set_clip_norm(1); }},
             {"resources.processes",
              [](Spec& s) { s.mutable_resources()->set_processes(2); }},
             {"resources.processes",  // an elastic range
              [](Spec& s) {
                s.mutable_resources()->set_processes(2);
                s.mutable_resources()->set_min_processes(1);
              }},
             {"objective.late",
              [](Spec& s) {
                v1::LateStage& late = *s.mutable_objective()->mutable_late();
                late.set_target_loss(3);
                late.set_target_ratio(1);
                late.set_max_steps(10);
              }},
             {"training.accumulate",
              [](Spec& s) { s.mutable_training()->set_accumulate(2); }},
             {"training.spike_factor",
              [](Spec& s) { s.mutable_training()->set_spike_factor(4); }},
             {"compression.galore", [](Spec& s) {
                s.mutable_compression()->set_method(Compression::DENSE);
              }}});
}

TEST(MethodValidationTest, RefusesBadSettings) {
  ExpectRefused(
      Under(Compression::GALORE),
      {{"compression.galore.rank",
        [](Spec& s) {
          s.mutable_compression()->mutable_galore()->set_rank(0);
        }},
       {"compression.galore.refresh_every_steps",
        [](Spec& s) {
          s.mutable_compression()->mutable_galore()->set_refresh_every_steps(0);
        }},
       {"compression.galore.scale",
        [](Spec& s) {
          s.mutable_compression()->mutable_galore()->set_scale(-1);
        }},
       {"compression.lora",  // another method
        [](Spec& s) { s.mutable_compression()->mutable_lora(); }}});
  ExpectRefused(
      Under(Compression::LORA),
      {{"compression.lora.rank",
        [](Spec& s) { s.mutable_compression()->mutable_lora()->set_rank(49); }},
       {"compression.lora.alpha",
        [](Spec& s) { s.mutable_compression()->mutable_lora()->set_alpha(0); }},
       {"compression.galore",
        [](Spec& s) { s.mutable_compression()->mutable_galore(); }}});
  ExpectRefused(
      Under(Compression::LTE),
      {{"compression.lte.rank",
        [](Spec& s) { s.mutable_compression()->mutable_lte()->set_rank(-1); }},
       {"compression.lte.heads",
        [](Spec& s) { s.mutable_compression()->mutable_lte()->set_heads(0); }},
       {"training.batch_size",  // 32 samples for 5 heads
        [](Spec& s) { s.mutable_compression()->mutable_lte()->set_heads(5); }},
       {"training.accumulate",  // parts of 16 samples for 32 heads
        [](Spec& s) { s.mutable_training()->set_accumulate(2); }},
       {"compression.lte.scale",
        [](Spec& s) { s.mutable_compression()->mutable_lte()->set_scale(0); }},
       {"compression.lte.merge_every_steps", [](Spec& s) {
          s.mutable_compression()->mutable_lte()->set_merge_every_steps(0);
        }}});
  ExpectRefused(
      Under(Compression::COLA),
      {{"compression.cola.rank",
        [](Spec& s) {
          s.mutable_compression()->mutable_cola()->set_rank(100);
        }},
       {"compression.cola.nonlinearity",  // an encoder
        [](Spec& s) {
          s.mutable_compression()->mutable_cola()->set_nonlinearity(
              v1::ColaSpec::BOTH);
        }},
       {"initial_weights.safetensors",
        [](Spec& s) { s.mutable_initial_weights()->set_safetensors("/a/b"); }},
       {"compression.lte",
        [](Spec& s) { s.mutable_compression()->mutable_lte(); }}});
  ExpectRefused(MaskedLmSpec(),  // a COMERA job
                {{"compression.cola",
                  [](Spec& s) { s.mutable_compression()->mutable_cola(); }}});
}

TEST(MethodValidationTest, AnInnerActivationIsForTensorTrainTransformers) {
  const auto with_silu = [](Spec& s) {
    s.mutable_compression()->set_inner_activation(Compression::SILU);
  };
  Spec spec = MaskedLmSpec();
  EXPECT_EQ(WithDefaults(spec).compression().inner_activation(),
            Compression::IDENTITY);
  with_silu(spec);
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
  ExpectRefused(spec, {{"initial_weights.safetensors", [](Spec& s) {
                          s.mutable_initial_weights()->set_safetensors("/a/b");
                        }}});
  ExpectRefused(Under(Compression::COLA),
                {{"compression.inner_activation", with_silu}});
  ExpectRefused(DlrmSpec(), {{"compression.inner_activation", with_silu}});
}

TEST(MethodValidationTest, OnlyComeraTakesSizeTargetsBelowTheModel) {
  for (auto method :
       {Compression::DENSE, Compression::GALORE, Compression::COLA}) {
    Spec spec = MaskedLmSpec();  // asks for 0.8 of the size
    spec.mutable_compression()->set_method(method);
    const std::string text = Describe(ValidateJobSpec(spec));
    EXPECT_NE(text.find("objective.late.target_ratio"), std::string::npos);
    EXPECT_NE(text.find("COMERA does"), std::string::npos) << text;
    // A loss target alone makes sense: the job ends when it is met.
    spec.mutable_objective()->mutable_late()->set_target_ratio(1);
    EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
  }
}

TEST(MethodValidationTest, SizesAreThoseOfWhatTheMethodHolds) {
  const double dense =
      SmallestModelParameters(WithDefaults(Under(Compression::DENSE)));
  EXPECT_EQ(SmallestModelParameters(WithDefaults(Under(Compression::GALORE))),
            dense);
  // Each layer has 4 matrices with sides of 48 + 48 and 2 with 48 + 192.
  const double sides = 2 * (4 * 96 + 2 * 240);
  EXPECT_EQ(SmallestModelParameters(WithDefaults(Under(Compression::LORA))),
            dense + 32 * sides);
  // The heads end in the weights.
  EXPECT_EQ(SmallestModelParameters(WithDefaults(Under(Compression::LTE))),
            dense);
  const double weights = 2 * (4 * 48 * 48 + 2 * 48 * 192);
  EXPECT_EQ(SmallestModelParameters(WithDefaults(Under(Compression::COLA))),
            dense - weights + 12 * sides);
}

}  // namespace
}  // namespace comera
