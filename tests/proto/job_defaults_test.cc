// Checks the defaults of every kind of job, and that filling twice changes
// nothing.

#include "proto/job_defaults.h"

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "tests/proto/sample_specs.h"

namespace comera {
namespace {

using google::protobuf::util::MessageDifferencer;

TEST(JobDefaultsTest, FillingTwiceChangesNothing) {
  for (const v1::JobSpec& spec : {MaskedLmSpec(), ClassifierSpec(), DlrmSpec(),
                                  CausalLmSpec(), Gpt2Spec(), v1::JobSpec()}) {
    const v1::JobSpec once = WithDefaults(spec);
    EXPECT_TRUE(MessageDifferencer::Equals(once, WithDefaults(once)));
  }
}

TEST(JobDefaultsTest, FillsWhatTheProtoDocuments) {
  const v1::JobSpec spec = WithDefaults(ClassifierSpec());
  EXPECT_EQ(spec.model().ffn(), 192);
  EXPECT_EQ(spec.model().max_positions(), 128);
  EXPECT_EQ(spec.model().segments(), 2);
  EXPECT_EQ(spec.model().dropout(), 0.1);
  EXPECT_EQ(spec.data().glue_tsv().sentence1_column(), 8);
  EXPECT_EQ(spec.data().glue_tsv().sentence2_column(), 9);
  EXPECT_EQ(spec.data().glue_tsv().label_column(), -1);
  EXPECT_TRUE(spec.data().tokenizer().lowercase());
  EXPECT_EQ(spec.data().mask_probability(), 0);
  EXPECT_EQ(spec.compression().method(), v1::CompressionSpec::COMERA);
  EXPECT_EQ(spec.compression().attention().ranks(0), 30);
  EXPECT_FALSE(spec.compression().has_output());
  EXPECT_EQ(spec.objective().kind(), v1::ObjectiveSpec::PARETO);
  EXPECT_EQ(spec.objective().early().gamma(), 0.05);
  EXPECT_FALSE(spec.objective().has_late());
  EXPECT_EQ(spec.optimizer().learning_rate_ranks(), 1e-2);
  EXPECT_EQ(spec.optimizer().clip_norm(), 1);
  EXPECT_EQ(spec.training().report_every_steps(), 10);
  EXPECT_EQ(spec.training().validation_samples(), 512);
  EXPECT_EQ(spec.resources().processes(), 1);
  EXPECT_EQ(spec.queue(), "default");
  EXPECT_EQ(spec.retries().infrastructure(), 3);
  EXPECT_EQ(spec.retries().training(), 0);
  EXPECT_EQ(spec.checkpoint().every_steps(), 100);
  EXPECT_EQ(spec.checkpoint().keep(), 2);
  EXPECT_EQ(spec.checkpoint().replicas(), 1);
  EXPECT_EQ(spec.checkpoint().snapshot_every_steps(), 10);
  EXPECT_TRUE(spec.checkpoint().durable());

  const v1::JobSpec lm = WithDefaults(MaskedLmSpec());
  EXPECT_EQ(lm.data().mask_probability(), 0.15);
  EXPECT_EQ(lm.data().code_directory().max_bytes(), 64 << 20);
  EXPECT_EQ(lm.compression().head().ranks(0), 30);
  EXPECT_EQ(lm.objective().late().w_size(), 1);
  EXPECT_EQ(lm.objective().late().rho(), 0.01);
}

TEST(JobDefaultsTest, FillsADlrm) {
  v1::JobSpec given = DlrmSpec();
  given.mutable_model()->clear_dlrm();
  given.mutable_data()->mutable_synthetic_clicks()->clear_table_rows();
  const v1::JobSpec spec = WithDefaults(given);
  const v1::DlrmSpec& dlrm = spec.model().dlrm();
  EXPECT_THAT(dlrm.bottom_mlp(), testing::ElementsAre(512, 256, 64, 16));
  EXPECT_THAT(dlrm.top_mlp(), testing::ElementsAre(512, 256, 1));
  EXPECT_EQ(dlrm.compressed_tables(), 10);
  EXPECT_EQ(dlrm.min_compressed_width(), 128);
  const v1::SyntheticClicks& clicks = spec.data().synthetic_clicks();
  EXPECT_EQ(clicks.dense_features(), 13);
  ASSERT_EQ(clicks.table_rows_size(), 26);
  EXPECT_EQ(clicks.table_rows(0), 1460);
  EXPECT_EQ(clicks.table_rows(2), 100000);
  EXPECT_EQ(spec.compression().mlp().ranks(0), 30);
  // Fields of an encoder stay unset.
  EXPECT_EQ(spec.model().dropout(), 0);
  EXPECT_EQ(spec.model().segments(), 0);
  EXPECT_FALSE(spec.compression().has_attention());
  EXPECT_FALSE(spec.data().has_tokenizer());

  given.mutable_data()->mutable_criteo_tsv();
  EXPECT_EQ(WithDefaults(given).data().criteo_tsv().parts(), 7);
  given.mutable_model()->mutable_dlrm()->set_compressed_tables(0);
  EXPECT_EQ(WithDefaults(given).model().dlrm().compressed_tables(), 0);
}

TEST(JobDefaultsTest, FillsADecoder) {
  v1::JobSpec given = CausalLmSpec();
  given.mutable_model()->clear_kv_heads();
  given.mutable_compression()->clear_method();
  const v1::JobSpec llama = WithDefaults(given);
  EXPECT_EQ(llama.model().architecture(), v1::ModelSpec::LLAMA);
  EXPECT_EQ(llama.model().kv_heads(), 4);
  EXPECT_EQ(llama.model().ffn(), 128);  // 8/3 x 48
  EXPECT_EQ(llama.model().rope_theta(), 1e4);
  EXPECT_EQ(llama.model().norm_epsilon(), 1e-5);
  EXPECT_EQ(llama.model().max_positions(), 64);
  EXPECT_EQ(llama.model().segments(), 0);
  EXPECT_EQ(llama.model().dropout(), 0);
  EXPECT_TRUE(llama.model().dropout_off());
  EXPECT_FALSE(llama.model().tie_output());
  EXPECT_EQ(llama.data().mask_probability(), 0);
  EXPECT_EQ(llama.data().text().validation_fraction(), 0.1);
  EXPECT_EQ(llama.training().accumulate(), 1);
  // The rest is a masked language model's, but for the head, which it lacks.
  EXPECT_EQ(llama.compression().output().ranks(0), 30);
  EXPECT_FALSE(llama.compression().has_head());
  EXPECT_EQ(llama.optimizer().kind(), v1::OptimizerSpec::MUON);
  EXPECT_EQ(llama.optimizer().learning_rate_cores(), 1e-2);

  given.mutable_model()->set_hidden(64);  // 8/3 of it is 170 2/3
  EXPECT_EQ(WithDefaults(given).model().ffn(), 192);
  given.mutable_model()->set_dropout(0.2);
  EXPECT_FALSE(WithDefaults(given).model().dropout_off());
  given.mutable_data()->mutable_text()->add_validation("/v.txt");
  EXPECT_EQ(WithDefaults(given).data().text().validation_fraction(), 0);
  given.mutable_compression()->set_method(v1::CompressionSpec::COLA);
  EXPECT_EQ(WithDefaults(given).compression().cola().nonlinearity(),
            v1::ColaSpec::BETWEEN_FACTORS);

  const v1::JobSpec gpt2 = WithDefaults(Gpt2Spec());
  EXPECT_EQ(gpt2.model().ffn(), 192);
  EXPECT_EQ(gpt2.model().kv_heads(), 0);
  EXPECT_FALSE(gpt2.model().has_rope_theta());
  EXPECT_EQ(gpt2.model().norm_epsilon(), 1e-5);
  EXPECT_TRUE(gpt2.model().tie_output());
  EXPECT_FALSE(gpt2.compression().has_output());
}

TEST(JobDefaultsTest, OnlyWsdHasADecayFraction) {
  v1::JobSpec spec = ClassifierSpec();
  spec.mutable_optimizer()->set_decay(v1::OptimizerSpec::COSINE);
  EXPECT_FALSE(WithDefaults(spec).optimizer().has_decay_fraction());
  spec.mutable_optimizer()->set_decay(v1::OptimizerSpec::WSD);
  EXPECT_EQ(WithDefaults(spec).optimizer().decay_fraction(), 0.2);
  spec.mutable_optimizer()->set_decay_fraction(0.5);
  EXPECT_EQ(WithDefaults(spec).optimizer().decay_fraction(), 0.5);
}

TEST(JobDefaultsTest, AdagradAndDenseTokensHaveARateOfTheirOwn) {
  v1::JobSpec spec = ClassifierSpec();
  EXPECT_EQ(WithDefaults(spec).optimizer().tables(),
            v1::OptimizerSpec::LAZY_ADAMW);
  EXPECT_FALSE(WithDefaults(spec).optimizer().has_learning_rate_tables());
  spec.mutable_optimizer()->set_tables(v1::OptimizerSpec::ROWWISE_ADAGRAD);
  EXPECT_EQ(WithDefaults(spec).optimizer().learning_rate_tables(), 0.01);
  spec.mutable_optimizer()->set_learning_rate_tables(0.1);
  EXPECT_EQ(WithDefaults(spec).optimizer().learning_rate_tables(), 0.1);
  spec.mutable_optimizer()->clear_tables();
  spec.mutable_optimizer()->clear_learning_rate_tables();
  // Dense rows want a high rate where the next token is predicted only.
  spec.mutable_compression()->mutable_embedding()->set_dense_tokens(5);
  spec.mutable_model()->set_family(v1::ModelSpec::MASKED_LM);
  EXPECT_FALSE(WithDefaults(spec).optimizer().has_learning_rate_tables());
  spec.mutable_model()->set_family(v1::ModelSpec::CAUSAL_LM);
  EXPECT_EQ(WithDefaults(spec).optimizer().learning_rate_tables(), 0.01);
}

TEST(JobDefaultsTest, KeepsWhatIsGiven) {
  v1::JobSpec spec = ClassifierSpec();
  spec.mutable_model()->set_dropout_off(true);
  spec.mutable_optimizer()->set_clip_norm(0);
  spec.mutable_retries()->set_infrastructure(0);
  spec.mutable_data()->mutable_glue_tsv()->set_sentence1_column(0);
  spec.mutable_compression()->mutable_head()->set_dense(true);
  const v1::JobSpec filled = WithDefaults(spec);
  EXPECT_EQ(filled.model().dropout(), 0);
  EXPECT_EQ(filled.optimizer().clip_norm(), 0);
  EXPECT_EQ(filled.retries().infrastructure(), 0);
  EXPECT_EQ(filled.data().glue_tsv().sentence1_column(), 0);
  EXPECT_EQ(filled.compression().head().ranks_size(), 0);
}

TEST(JobDefaultsTest, ZerosThatAreGivenStayZeros) {
  v1::JobSpec spec = ClassifierSpec();
  spec.mutable_model()->set_dropout(0);
  spec.mutable_compression()->set_rank_threshold(0);
  spec.mutable_compression()->set_compact_every_steps(0);
  spec.mutable_training()->set_report_every_steps(0);
  spec.mutable_training()->set_validate_every_steps(0);
  spec.mutable_training()->set_accumulate(0);
  spec.mutable_checkpoint()->set_every_steps(0);
  spec.mutable_checkpoint()->set_keep(0);
  const v1::JobSpec filled = WithDefaults(spec);
  EXPECT_EQ(filled.model().dropout(), 0);
  EXPECT_TRUE(filled.model().dropout_off());
  EXPECT_EQ(filled.compression().rank_threshold(), 0);
  EXPECT_EQ(filled.compression().compact_every_steps(), 0);
  EXPECT_EQ(filled.training().report_every_steps(), 0);
  EXPECT_EQ(filled.training().validate_every_steps(), 0);
  EXPECT_EQ(filled.training().accumulate(), 0);
  EXPECT_EQ(filled.checkpoint().every_steps(), 0);
  EXPECT_EQ(filled.checkpoint().keep(), 0);
  v1::JobSpec masked;
  masked.mutable_model()->set_family(v1::ModelSpec::MASKED_LM);
  EXPECT_EQ(WithDefaults(masked).data().mask_probability(), 0.15);
  masked.mutable_data()->set_mask_probability(0);
  EXPECT_EQ(WithDefaults(masked).data().mask_probability(), 0);
}

TEST(JobDefaultsTest, ZerosOfDataStayZeros) {
  v1::JobSpec spec;
  v1::CodeDirectory& code = *spec.mutable_data()->mutable_code_directory();
  EXPECT_EQ(WithDefaults(spec).data().code_directory().max_bytes(), 64 << 20);
  code.set_validation_fraction(0);
  code.set_max_bytes(0);
  code.set_max_file_bytes(0);
  const v1::CodeDirectory filled = WithDefaults(spec).data().code_directory();
  // Validation refuses the first one, and the others are no limits.
  EXPECT_EQ(filled.validation_fraction(), 0);
  EXPECT_EQ(filled.max_bytes(), 0);
  EXPECT_EQ(filled.max_file_bytes(), 0);
  spec.mutable_data()->mutable_labelled_text()->set_validation_fraction(0);
  EXPECT_EQ(WithDefaults(spec).data().labelled_text().validation_fraction(), 0);
  spec.mutable_data()->mutable_text()->set_validation_fraction(0);
  EXPECT_EQ(WithDefaults(spec).data().text().validation_fraction(), 0);
  spec.mutable_data()->mutable_token_shards()->set_validation_fraction(0);
  EXPECT_EQ(WithDefaults(spec).data().token_shards().validation_fraction(), 0);
}

}  // namespace
}  // namespace comera
