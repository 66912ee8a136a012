// Checks that bad batches, phases, weights and resources are refused.

#include "gtest/gtest.h"
#include "proto/job_defaults.h"
#include "proto/validation/job_validation.h"
#include "tests/proto/sample_specs.h"
#include "tests/proto/validation/bad_specs.h"

namespace comera {
namespace {

// A valid spec with two phases, tied output, initial weights and bf16.
Spec SoundSpec() {
  Spec spec = MaskedLmSpec();
  spec.mutable_objective()->mutable_early()->set_steps(100);
  v1::TrainingSpec& training = *spec.mutable_training();
  training.set_precision(v1::TrainingSpec::BF16);
  training.set_compress_gradients(true);
  v1::Phase* phase = training.add_phases();
  phase->set_steps(70);
  phase->set_max_length(16);
  phase = training.add_phases();
  phase->set_steps(30);
  phase->set_max_length(64);
  phase->set_batch_size(4);
  spec.mutable_model()->set_tie_output(true);
  spec.mutable_compression()->clear_output();
  spec.mutable_initial_weights()->set_safetensors("/models/dense.safetensors");
  return spec;
}

TEST(TrainingValidationTest, SoundIsAccepted) {
  EXPECT_TRUE(ValidateJobSpec(SoundSpec()).empty())
      << Describe(ValidateJobSpec(SoundSpec()));
}

TEST(TrainingValidationTest, Tf32IsAcceptedWhereAGpuMayBe) {
  Spec spec = SoundSpec();
  spec.mutable_training()->set_precision(v1::TrainingSpec::TF32);
  for (auto device : {v1::ResourceSpec::ANY, v1::ResourceSpec::GPU}) {
    spec.mutable_resources()->set_device(device);
    EXPECT_TRUE(ValidateJobSpec(spec).empty())
        << Describe(ValidateJobSpec(spec));
  }
}

TEST(TrainingValidationTest, DefaultsOfPhases) {
  Spec spec = SoundSpec();
  spec.mutable_objective()->mutable_early()->clear_steps();
  const Spec filled = WithDefaults(spec);
  EXPECT_EQ(filled.training().phases(0).batch_size(),
            spec.training().batch_size());
  EXPECT_EQ(filled.training().phases(1).batch_size(), 4);
  EXPECT_EQ(filled.objective().early().steps(), 100);
  EXPECT_FALSE(filled.compression().has_output());
}

TEST(TrainingValidationTest, PartsDivideEveryShareOfAnElasticJob) {
  Spec spec = CausalLmSpec();
  spec.mutable_training()->set_batch_size(24);
  spec.mutable_training()->set_accumulate(2);
  spec.mutable_training()->set_spike_factor(10);
  spec.mutable_resources()->set_min_processes(2);
  // With 2, 3, 4 and 6 processes; no others divide the batch.
  spec.mutable_resources()->set_processes(6);
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
  ExpectRefused(spec,
                {{"training.accumulate",  // 3 samples for each of 8
                  [](Spec& s) { s.mutable_resources()->set_processes(8); }},
                 {"training.accumulate",  // 8 for each of 3
                  [](Spec& s) { s.mutable_training()->set_accumulate(6); }}});
  spec.mutable_resources()->clear_min_processes();
  spec.mutable_resources()->set_processes(4);
  spec.mutable_training()->set_accumulate(6);
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
}

TEST(TrainingValidationTest, BadIsRefused) {
  const auto phase = [](Spec& s) {
    return s.mutable_training()->mutable_phases(0);
  };
  ExpectRefused(
      SoundSpec(),
      {
          {"training.precision",
           [](Spec& s) {
             s.mutable_training()->set_precision(v1::TrainingSpec::TF32);
             s.mutable_resources()->set_device(v1::ResourceSpec::CPU);
           }},
          {"model.heads",  // on a CPU the same model trains
           [](Spec& s) {
             s.mutable_model()->set_hidden(256 * s.model().heads());
             s.mutable_resources()->set_device(v1::ResourceSpec::GPU);
           }},
          {"training.phases", [&](Spec& s) { phase(s)->set_steps(71); }},
          {"training.phases[0].steps",
           [&](Spec& s) { phase(s)->set_steps(0); }},
          {"training.phases[0].steps",
           [&](Spec& s) { phase(s)->set_steps(kHuge); }},
          {"training.phases[0].max_length",
           [&](Spec& s) { phase(s)->set_max_length(65); }},
          {"training.phases[0].max_length",
           [&](Spec& s) { phase(s)->set_max_length(0); }},
          {"training.phases[0].batch_size",
           [&](Spec& s) { phase(s)->set_batch_size(-1); }},
          {"training.phases[1].batch_size",
           [&](Spec& s) { s.mutable_resources()->set_processes(8); }},
          {"training.phases",
           [&](Spec& s) {
             for (int i = 0; i < 100; ++i) {
               *s.mutable_training()->add_phases() = s.training().phases(0);
             }
           }},
          {"model.tie_output",
           [](Spec& s) {
             s.mutable_model()->set_family(v1::ModelSpec::ENCODER_CLASSIFIER);
           }},
          {"compression.output",
           [](Spec& s) {
             s.mutable_compression()->mutable_output()->add_ranks(3);
           }},
          {"training.accumulate",
           [](Spec& s) { s.mutable_training()->set_accumulate(-1); }},
          {"training.accumulate",  // 16 samples for each process
           [](Spec& s) { s.mutable_training()->set_accumulate(3); }},
          {"training.accumulate",  // the second phase's 2
           [](Spec& s) { s.mutable_training()->set_accumulate(4); }},
          {"training.spike_factor",
           [](Spec& s) { s.mutable_training()->set_spike_factor(1); }},
          {"training.spike_factor",
           [](Spec& s) { s.mutable_training()->set_spike_factor(-3); }},
          {"training.max_tokens",
           [](Spec& s) { s.mutable_training()->set_max_tokens(5); }},
          {"initial_weights.safetensors",
           [](Spec& s) { s.mutable_initial_weights()->clear_safetensors(); }},
          {"initial_weights.safetensors",
           [](Spec& s) {
             s.mutable_initial_weights()->set_safetensors("dense.safetensors");
           }},
      });
}

}  // namespace
}  // namespace comera
