// Compares the sizes that follow from a specification with those that the
// trainer's layer table makes.
#include "proto/model_size.h"

#include <string>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "proto/job_defaults.h"
#include "tests/proto/sample_specs.h"
#include "worker/trainer/model/config/model_config.h"
#include "worker/trainer/model/plan/model_layout.h"
#include "worker/trainer/model/plan/model_size.h"

namespace comera {
namespace {

using Compression = v1::CompressionSpec;

constexpr int64_t kVocabulary = 1000;

trainer::ModelLayout LayoutOf(const v1::JobSpec& spec) {
  const auto config = trainer::MakeModelConfig(spec, kVocabulary);
  EXPECT_OK(config);
  return config.ok() ? trainer::MakeModelLayout(*config)
                     : trainer::ModelLayout();
}

// The jobs whose sizes are compared, without targets and modes.
std::vector<v1::JobSpec> Jobs() {
  v1::JobSpec tied = CausalLmSpec();
  tied.mutable_model()->set_tie_output(true);
  tied.mutable_model()->set_kv_heads(4);
  v1::JobSpec masked_lm = MaskedLmSpec();
  masked_lm.clear_compression();
  masked_lm.mutable_objective()->clear_late();
  v1::JobSpec classifier = ClassifierSpec();
  v1::TokenizerSpec& tokenizer =
      *classifier.mutable_data()->mutable_tokenizer();
  tokenizer.Clear();
  tokenizer.set_kind(v1::TokenizerSpec::BYTE_BPE);
  tokenizer.set_train_vocabulary_size(kVocabulary);
  return {CausalLmSpec(), tied, Gpt2Spec(), masked_lm, classifier};
}

TEST(ModelSizeTest, WhatIsNeverCompressedIsTheTrainersFigure) {
  for (v1::JobSpec job : Jobs()) {
    for (auto method :
         {Compression::COMERA, Compression::DENSE, Compression::GALORE,
          Compression::LORA, Compression::LTE, Compression::COLA}) {
      job.mutable_compression()->set_method(method);
      const v1::JobSpec spec = WithDefaults(job);
      const trainer::ModelLayout layout = LayoutOf(spec);
      const double smallest = SmallestModelParameters(spec);
      EXPECT_EQ(smallest, trainer::FixedSize(layout.parameters))
          << spec.model().ShortDebugString() << " "
          << Compression::Method_Name(method);
      if (method != Compression::COMERA) {
        EXPECT_EQ(smallest, LargestModelParameters(spec));
      }
    }
  }
}

TEST(ModelSizeTest, DenseDecodersHaveThePublishedLayers) {
  // Keys and values are half as wide; gate, up and down; two norms a block.
  const double llama_block = 2 * 48 * 48 + 2 * 48 * 24 + 3 * 48 * 128 + 2 * 48;
  EXPECT_EQ(SmallestModelParameters(WithDefaults(CausalLmSpec())),
            2 * 1000 * 48 + 2 * llama_block + 48);
  // Biases, norms with two vectors each, positions, one table.
  const double gpt2_block =
      4 * (48 * 48 + 48) + 2 * 48 * 192 + 192 + 48 + 4 * 48;
  EXPECT_EQ(SmallestModelParameters(WithDefaults(Gpt2Spec())),
            1000 * 48 + 64 * 48 + 2 * gpt2_block + 2 * 48);
}

TEST(ModelSizeTest, DenseClassesOfACompressedDecoderAreWhole) {
  v1::JobSpec job = CausalLmSpec();
  Compression& compression = *job.mutable_compression();
  compression.set_method(Compression::COMERA);
  compression.mutable_embedding()->set_dense(true);
  compression.mutable_attention()->set_dense(true);
  compression.mutable_ffn_up()->set_dense(true);
  const v1::JobSpec spec = WithDefaults(job);
  EXPECT_EQ(SmallestModelParameters(spec),
            trainer::FixedSize(LayoutOf(spec).parameters));
}

TEST(ModelSizeTest, DenseTokensAreNeverCompressed) {
  for (v1::JobSpec job : Jobs()) {
    Compression& compression = *job.mutable_compression();
    compression.set_method(Compression::COMERA);
    const double without = SmallestModelParameters(WithDefaults(job));
    compression.mutable_embedding()->set_dense_tokens(7);
    const v1::JobSpec spec = WithDefaults(job);
    EXPECT_EQ(SmallestModelParameters(spec) - without,
              7.0 * spec.model().hidden());
    EXPECT_EQ(SmallestModelParameters(spec),
              trainer::FixedSize(LayoutOf(spec).parameters));
    EXPECT_GE(LargestModelParameters(spec),
              LayoutOf(spec).parameters.size());
    // Other methods have none, whatever the field says.
    compression.set_method(Compression::DENSE);
    const double dense = SmallestModelParameters(WithDefaults(job));
    compression.clear_embedding();
    EXPECT_EQ(dense, SmallestModelParameters(WithDefaults(job)));
  }
}

TEST(ModelSizeTest, NoDecoderStartsAboveTheUpperBound) {
  v1::JobSpec job = CausalLmSpec();
  Compression& compression = *job.mutable_compression();
  compression.set_method(Compression::COMERA);
  for (v1::LayerCompression* layer :
       {compression.mutable_attention(), compression.mutable_ffn_up()}) {
    layer->add_ranks(8);
  }
  // Modes of the square layers; keys and values have others.
  for (int64_t mode : {6, 8}) {
    compression.mutable_attention()->add_input_modes(mode);
    compression.mutable_attention()->add_output_modes(mode);
  }
  const v1::JobSpec spec = WithDefaults(job);
  EXPECT_GE(LargestModelParameters(spec), LayoutOf(spec).parameters.size());
  EXPECT_LE(LargestModelParameters(spec),
            SmallestModelParameters(WithDefaults(CausalLmSpec())));
}

}  // namespace
}  // namespace comera
