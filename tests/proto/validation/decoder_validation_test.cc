// Checks the validation of decoders' jobs: models, plain text and tokenizers.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/job_defaults.h"
#include "proto/validation/job_validation.h"
#include "tests/proto/sample_specs.h"
#include "tests/proto/validation/bad_specs.h"

namespace comera {
namespace {

v1::ModelSpec& Model(Spec& s) { return *s.mutable_model(); }
v1::Text& Text(Spec& s) { return *s.mutable_data()->mutable_text(); }
v1::TokenizerSpec& Tokenizer(Spec& s) {
  return *s.mutable_data()->mutable_tokenizer();
}

TEST(DecoderValidationTest, SoundSpecsPass) {
  for (const Spec& spec : {CausalLmSpec(), Gpt2Spec()}) {
    EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
    EXPECT_EQ(Describe(ValidateJobSpec(WithDefaults(spec))), "");
  }
  Spec spec = CausalLmSpec();
  Model(spec).set_rope_theta(5e5);
  Model(spec).set_norm_epsilon(1e-6);
  Model(spec).set_dropout(0.1);
  Model(spec).set_tie_output(true);
  spec.mutable_training()->set_max_tokens(1'000'000);
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
}

TEST(DecoderValidationTest, EveryMethodTrainsDecoders) {
  for (Spec spec : {CausalLmSpec(), Gpt2Spec()}) {
    for (auto method : {v1::CompressionSpec::COMERA, v1::CompressionSpec::DENSE,
                        v1::CompressionSpec::GALORE, v1::CompressionSpec::LORA,
                        v1::CompressionSpec::LTE, v1::CompressionSpec::COLA}) {
      spec.mutable_compression()->set_method(method);
      EXPECT_EQ(Describe(ValidateJobSpec(spec)), "")
          << v1::CompressionSpec::Method_Name(method);
    }
  }
  Spec spec = CausalLmSpec();
  spec.mutable_compression()->set_method(v1::CompressionSpec::COLA);
  spec.mutable_compression()->mutable_cola()->set_nonlinearity(
      v1::ColaSpec::BOTH);
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
}

TEST(DecoderValidationTest, RefusesBadLlamas) {
  ExpectRefused(
      CausalLmSpec(),
      {{"model.kv_heads", [](Spec& s) { Model(s).set_kv_heads(-1); }},
       {"model.kv_heads", [](Spec& s) { Model(s).set_kv_heads(3); }},
       {"model.kv_heads", [](Spec& s) { Model(s).set_kv_heads(8); }},
       {"model.heads", [](Spec& s) { Model(s).set_heads(16); }},  // 3 wide
       {"model.heads", [](Spec& s) { Model(s).set_heads(5); }},
       {"model.rope_theta", [](Spec& s) { Model(s).set_rope_theta(1); }},
       {"model.norm_epsilon", [](Spec& s) { Model(s).set_norm_epsilon(0); }},
       {"model.norm_epsilon", [](Spec& s) { Model(s).set_norm_epsilon(1); }},
       {"model.dropout", [](Spec& s) { Model(s).set_dropout(1); }},
       {"model.segments", [](Spec& s) { Model(s).set_segments(2); }},
       {"model.classes", [](Spec& s) { Model(s).set_classes(2); }},
       {"model.max_positions", [](Spec& s) { Model(s).set_max_positions(63); }},
       {"data.mask_probability",
        [](Spec& s) { s.mutable_data()->set_mask_probability(0.15); }},
       {"compression.head",
        [](Spec& s) { s.mutable_compression()->mutable_head(); }},
       {"objective.kind",
        [](Spec& s) {
          s.mutable_objective()->set_kind(v1::ObjectiveSpec::REFERENCE);
        }},
       {"training.max_tokens",
        [](Spec& s) { s.mutable_training()->set_max_tokens(-1); }},
       {"training.max_tokens",  // its last step would not be known
        [](Spec& s) {
          s.mutable_training()->set_max_tokens(1000);
          s.mutable_objective()->mutable_early()->set_only(true);
        }},
       {"training.max_tokens", [](Spec& s) {
          s.mutable_training()->set_max_tokens(1000);
          s.mutable_start_from()->set_checkpoint("jobs/a/checkpoints/100");
        }}});
}

TEST(DecoderValidationTest, RefusesBadGpt2s) {
  ExpectRefused(
      Gpt2Spec(),
      {{"model.kv_heads", [](Spec& s) { Model(s).set_kv_heads(2); }},
       {"model.rope_theta", [](Spec& s) { Model(s).set_rope_theta(1e4); }},
       {"compression.output",  // always tied
        [](Spec& s) { s.mutable_compression()->mutable_output(); }},
       {"compression.cola.nonlinearity", [](Spec& s) {
          s.mutable_compression()->set_method(v1::CompressionSpec::COLA);
          s.mutable_compression()->mutable_cola()->set_nonlinearity(
              v1::ColaSpec::BOTH);
        }}});
  // Rotary positions alone need an even width.
  Spec odd = Gpt2Spec();
  Model(odd).set_heads(16);
  EXPECT_EQ(Describe(ValidateJobSpec(odd)), "");
}

TEST(DecoderValidationTest, OtherFamiliesHaveNothingOfDecoders) {
  for (const Spec& spec : {MaskedLmSpec(), ClassifierSpec(), DlrmSpec()}) {
    ExpectRefused(
        spec,
        {{"model.architecture",
          [](Spec& s) { Model(s).set_architecture(v1::ModelSpec::LLAMA); }},
         {"model.kv_heads", [](Spec& s) { Model(s).set_kv_heads(2); }},
         {"model.rope_theta", [](Spec& s) { Model(s).set_rope_theta(1e4); }},
         {"model.norm_epsilon",
          [](Spec& s) { Model(s).set_norm_epsilon(1e-5); }},
         {"training.max_tokens",
          [](Spec& s) { s.mutable_training()->set_max_tokens(9); }}});
  }
}

TEST(DecoderValidationTest, RefusesDataOfOtherFamilies) {
  ExpectRefused(
      CausalLmSpec(),
      {{"data.glue_tsv",
        [](Spec& s) {
          v1::GlueTsv& glue = *s.mutable_data()->mutable_glue_tsv();
          glue.set_train("/a");
          glue.set_validation("/b");
        }},
       {"data.labelled_text",
        [](Spec& s) {
          s.mutable_data()->mutable_labelled_text()->set_train("/a.csv");
        }},
       {"data.criteo_tsv",
        [](Spec& s) {
          s.mutable_data()->mutable_criteo_tsv()->add_files("/a");
        }},
       {"data.synthetic_clicks",
        [](Spec& s) { s.mutable_data()->mutable_synthetic_clicks(); }},
       {"data", [](Spec& s) { s.mutable_data()->clear_format(); }}});
  const auto text = [](Spec& s) { Text(s).add_train("/a.txt"); };
  ExpectRefused(ClassifierSpec(), {{"data", text}});
  ExpectRefused(DlrmSpec(), {{"data", text}});
}

TEST(TextValidationTest, SoundTextsPass) {
  Spec spec = CausalLmSpec();
  Text(spec).add_train("datasets/plays/*.txt");
  Text(spec).add_test("datasets/plays@2/test.txt.gz");
  Text(spec).set_document_separator("<|endoftext|>");
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
  Text(spec).add_validation("/data/held_out/[ab]*.txt");
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
  Spec masked = MaskedLmSpec();
  Text(masked).add_train("/data/a.txt");
  EXPECT_EQ(Describe(ValidateJobSpec(masked)), "");
}

TEST(TextValidationTest, RefusesBadTexts) {
  ExpectRefused(
      CausalLmSpec(),
      {{"data.text.train", [](Spec& s) { Text(s).clear_train(); }},
       {"data.text.train[1]", [](Spec& s) { Text(s).add_train(""); }},
       {"data.text.train[1]", [](Spec& s) { Text(s).add_train("a.txt"); }},
       {"data.text.train[1]",
        [](Spec& s) { Text(s).add_train("datasets/plays"); }},
       {"data.text.train[1]",
        [](Spec& s) { Text(s).add_train("datasets/*/a.txt"); }},
       {"data.text.train",
        [](Spec& s) {
          for (int i = 0; i < 70; ++i) Text(s).add_train("/a.txt");
        }},
       {"data.text.validation[0]",
        [](Spec& s) { Text(s).add_validation("v.txt"); }},
       {"data.text.test[0]", [](Spec& s) { Text(s).add_test("../t.txt"); }},
       {"data.text.validation_fraction",
        [](Spec& s) { Text(s).set_validation_fraction(1); }},
       {"data.text.validation_fraction",
        [](Spec& s) { Text(s).set_validation_fraction(-0.1); }},
       {"data.text.validation_fraction",
        [](Spec& s) {
          Text(s).add_validation("/v.txt");
          Text(s).set_validation_fraction(0.1);
        }},
       {"data.text.document_separator",  // no line holds a line end
        [](Spec& s) { Text(s).set_document_separator("a\nb"); }}});
}

TEST(TokenizerValidationTest, EveryKindHasItsFiles) {
  Spec spec = CausalLmSpec();
  Tokenizer(spec).Clear();
  Tokenizer(spec).set_kind(v1::TokenizerSpec::CHARACTERS);
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
  for (auto kind :
       {v1::TokenizerSpec::HUGGING_FACE, v1::TokenizerSpec::SENTENCEPIECE}) {
    Tokenizer(spec).set_kind(kind);
    Tokenizer(spec).set_tokenizer_file("datasets/llama/tokenizer.json");
    EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
    ExpectRefused(
        spec,
        {{"data.tokenizer.tokenizer_file",
          [](Spec& s) { Tokenizer(s).clear_tokenizer_file(); }},
         {"data.tokenizer.tokenizer_file",
          [](Spec& s) { Tokenizer(s).set_tokenizer_file("tokenizer.json"); }},
         {"data.tokenizer.vocabulary_file",
          [](Spec& s) { Tokenizer(s).set_vocabulary_file("/v.json"); }},
         {"data.tokenizer.merges_file",
          [](Spec& s) { Tokenizer(s).set_merges_file("/m.txt"); }},
         {"data.tokenizer.train_vocabulary_size",
          [](Spec& s) { Tokenizer(s).set_train_vocabulary_size(400); }}});
  }
  const std::vector<BadSpec> bad_characters = {
      {"data.tokenizer.tokenizer_file",
       [](Spec& s) { Tokenizer(s).set_tokenizer_file("/t.json"); }},
      {"data.tokenizer.vocabulary_file",
       [](Spec& s) { Tokenizer(s).set_vocabulary_file("/v.json"); }},
      {"data.tokenizer.train_vocabulary_size",
       [](Spec& s) { Tokenizer(s).set_train_vocabulary_size(400); }}};
  Tokenizer(spec).Clear();
  Tokenizer(spec).set_kind(v1::TokenizerSpec::CHARACTERS);
  ExpectRefused(spec, bad_characters);
  ExpectRefused(CausalLmSpec(), {bad_characters[0]});  // byte-level BPE
  // Samples of encoders begin and end with tokens that are no characters.
  ExpectRefused(MaskedLmSpec(),
                {{"data.tokenizer.kind", [](Spec& s) {
                    Tokenizer(s).Clear();
                    Tokenizer(s).set_kind(v1::TokenizerSpec::CHARACTERS);
                  }}});
}

// A job on token shards.
Spec ShardsSpec() {
  Spec spec = CausalLmSpec();
  spec.mutable_data()->clear_tokenizer();
  v1::TokenShards* shards = spec.mutable_data()->mutable_token_shards();
  shards->set_train("/shards");
  shards->set_validation_fraction(0.01);
  return spec;
}

v1::TokenShards& Shards(Spec& s) {
  return *s.mutable_data()->mutable_token_shards();
}

TEST(DecoderValidationTest, TokenShards) {
  Spec spec = ShardsSpec();
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
  Shards(spec).clear_validation_fraction();
  EXPECT_EQ(WithDefaults(spec).data().token_shards().validation_fraction(),
            0.01);
  Shards(spec).set_validation("datasets/corpus/validation");
  Shards(spec).set_test("/test");
  EXPECT_EQ(Describe(ValidateJobSpec(WithDefaults(spec))), "");
  Tokenizer(spec).set_kind(v1::TokenizerSpec::HUGGING_FACE);
  Tokenizer(spec).set_tokenizer_file("/tokenizer.json");
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");

  ExpectRefused(
      ShardsSpec(),
      {{"data.token_shards.train", [](Spec& s) { Shards(s).clear_train(); }},
       {"data.token_shards.train", [](Spec& s) { Shards(s).set_train("a"); }},
       {"data.token_shards.test", [](Spec& s) { Shards(s).set_test("a"); }},
       {"data.token_shards.validation_fraction",
        [](Spec& s) { Shards(s).set_validation_fraction(1); }},
       {"data.token_shards.validation_fraction",
        [](Spec& s) { Shards(s).set_validation("/v"); }},
       {"data.tokenizer.train_vocabulary_size",
        [](Spec& s) {
          Tokenizer(s).set_kind(v1::TokenizerSpec::BYTE_BPE);
          Tokenizer(s).set_train_vocabulary_size(1000);
        }},
       {"data.tokenizer.tokenizer_file", [](Spec& s) {
          Tokenizer(s).set_kind(v1::TokenizerSpec::SENTENCEPIECE);
        }}});
  ExpectRefused(CausalLmSpec(),
                {{"data.text.max_bad_rows",
                  [](Spec& s) { Text(s).set_max_bad_rows(-1); }},
                 {"data.text.max_bad_rows", [](Spec& s) {
                    Text(s).set_max_bad_rows(int64_t{1} << 40);
                  }}});
}

}  // namespace
}  // namespace comera
