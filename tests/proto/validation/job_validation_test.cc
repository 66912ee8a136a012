// Damages valid specs one field at a time and checks that validation names the
// field.

#include "proto/validation/job_validation.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/job_defaults.h"
#include "tests/proto/sample_specs.h"
#include "tests/proto/validation/bad_specs.h"

namespace comera {
namespace {

// Each entry damages a valid spec in one way.
const std::vector<BadSpec>& BadMaskedLmSpecs() {
  static const auto* specs = new std::vector<BadSpec>{
      // Errors in the model.
      {"model.family", [](Spec& s) { s.mutable_model()->clear_family(); }},
      {"model.family",
       [](Spec& s) {
         s.mutable_model()->set_family(static_cast<v1::ModelSpec::Family>(77));
       }},
      {"model.layers", [](Spec& s) { s.mutable_model()->set_layers(0); }},
      {"model.layers", [](Spec& s) { s.mutable_model()->set_layers(-3); }},
      {"model.layers", [](Spec& s) { s.mutable_model()->set_layers(1001); }},
      {"model.hidden", [](Spec& s) { s.mutable_model()->set_hidden(0); }},
      {"model.hidden", [](Spec& s) { s.mutable_model()->set_hidden(kHuge); }},
      {"model.hidden", [](Spec& s) { s.mutable_model()->set_hidden(65540); }},
      {"model.ffn", [](Spec& s) { s.mutable_model()->set_ffn(-1); }},
      {"model.ffn", [](Spec& s) { s.mutable_model()->set_ffn(kHuge); }},
      {"model.heads", [](Spec& s) { s.mutable_model()->set_heads(0); }},
      {"model.heads", [](Spec& s) { s.mutable_model()->set_heads(5); }},
      {"model.max_positions",
       [](Spec& s) { s.mutable_model()->set_max_positions(63); }},
      {"model.max_positions",
       [](Spec& s) { s.mutable_model()->set_max_positions(-1); }},
      {"model.segments", [](Spec& s) { s.mutable_model()->set_segments(-2); }},
      {"model.classes", [](Spec& s) { s.mutable_model()->set_classes(3); }},
      {"model.dropout", [](Spec& s) { s.mutable_model()->set_dropout(1); }},
      {"model.dropout", [](Spec& s) { s.mutable_model()->set_dropout(-.1); }},
      {"model.dropout", [](Spec& s) { s.mutable_model()->set_dropout(kNan); }},
      {"model.dropout_off",
       [](Spec& s) {
         s.mutable_model()->set_dropout(0.1);
         s.mutable_model()->set_dropout_off(true);
       }},
      // Errors in the data.
      {"data", [](Spec& s) { s.mutable_data()->clear_format(); }},
      {"data.tokenizer.kind", [](Spec& s) { s.clear_data(); }},
      {"data.code_directory.roots",
       [](Spec& s) {
         s.mutable_data()->mutable_code_directory()->clear_roots();
       }},
      {"data.code_directory.roots[0]",
       [](Spec& s) {
         s.mutable_data()->mutable_code_directory()->set_roots(0, "include");
       }},
      {"data.code_directory.roots[1]",
       [](Spec& s) {
         s.mutable_data()->mutable_code_directory()->add_roots("");
       }},
      {"data.code_directory.roots[0]",
       [](Spec& s) {
         s.mutable_data()->mutable_code_directory()->set_roots(0, "/a\xff");
       }},
      {"data.code_directory.globs",
       [](Spec& s) {
         s.mutable_data()->mutable_code_directory()->clear_globs();
       }},
      {"data.code_directory.globs[0]",
       [](Spec& s) {
         s.mutable_data()->mutable_code_directory()->set_globs(0, "*\n.h");
       }},
      {"data.code_directory.validation_fraction",
       [](Spec& s) {
         s.mutable_data()->mutable_code_directory()->set_validation_fraction(1);
       }},
      {"data.code_directory.test_fraction",
       [](Spec& s) {
         s.mutable_data()->mutable_code_directory()->set_test_fraction(0.99);
       }},
      {"data.code_directory.max_bytes",
       [](Spec& s) {
         s.mutable_data()->mutable_code_directory()->set_max_bytes(-1);
       }},
      {"data.code_directory.max_file_bytes",
       [](Spec& s) {
         s.mutable_data()->mutable_code_directory()->set_max_file_bytes(kHuge);
       }},
      {"data.jsonl.train", [](Spec& s) { s.mutable_data()->mutable_jsonl(); }},
      {"data.jsonl.validation",
       [](Spec& s) {
         s.mutable_data()->mutable_jsonl()->set_validation("v.jsonl");
       }},
      {"data.jsonl.fields[0]",
       [](Spec& s) { s.mutable_data()->mutable_jsonl()->add_fields(""); }},
      {"data.max_length", [](Spec& s) { s.mutable_data()->set_max_length(0); }},
      {"data.max_length",
       [](Spec& s) { s.mutable_data()->set_max_length(1 << 20); }},
      {"data.mask_probability",
       [](Spec& s) { s.mutable_data()->set_mask_probability(1.5); }},
      {"data.mask_probability",
       [](Spec& s) { s.mutable_data()->set_mask_probability(-0.1); }},
      {"data.tokenizer.train_vocabulary_size",
       [](Spec& s) {
         s.mutable_data()->mutable_tokenizer()->clear_train_vocabulary_size();
       }},
      {"data.tokenizer.train_vocabulary_size",
       [](Spec& s) {
         s.mutable_data()->mutable_tokenizer()->set_train_vocabulary_size(299);
       }},
      {"data.tokenizer.train_vocabulary_size",
       [](Spec& s) {
         s.mutable_data()->mutable_tokenizer()->set_train_vocabulary_size(
             65537);
       }},
      {"data.tokenizer.vocabulary_file",
       [](Spec& s) {
         s.mutable_data()->mutable_tokenizer()->set_vocabulary_file("/v.json");
       }},
      {"data.tokenizer.merges_file",
       [](Spec& s) {
         auto* t = s.mutable_data()->mutable_tokenizer();
         t->clear_train_vocabulary_size();
         t->set_vocabulary_file("/v.json");
       }},
      // Errors in the optimizer.
      {"optimizer.learning_rate_cores",
       [](Spec& s) { s.mutable_optimizer()->set_learning_rate_cores(0); }},
      {"optimizer.learning_rate_ranks",
       [](Spec& s) { s.mutable_optimizer()->set_learning_rate_ranks(-1); }},
      {"optimizer.learning_rate_other",
       [](Spec& s) {
         s.mutable_optimizer()->set_learning_rate_other(kInfinity);
       }},
      {"optimizer.weight_decay",
       [](Spec& s) { s.mutable_optimizer()->set_weight_decay(-1e-9); }},
      {"optimizer.beta1", [](Spec& s) { s.mutable_optimizer()->set_beta1(1); }},
      {"optimizer.beta2",
       [](Spec& s) { s.mutable_optimizer()->set_beta2(-0.5); }},
      {"optimizer.epsilon",
       [](Spec& s) { s.mutable_optimizer()->set_epsilon(0); }},
      {"optimizer.warmup_steps",
       [](Spec& s) { s.mutable_optimizer()->set_warmup_steps(-1); }},
      {"optimizer.decay",
       [](Spec& s) {
         s.mutable_optimizer()->set_decay(
             static_cast<v1::OptimizerSpec::Decay>(4));
       }},
      {"optimizer.min_scale",
       [](Spec& s) {
         s.mutable_optimizer()->set_decay(v1::OptimizerSpec::COSINE);
         s.mutable_optimizer()->set_min_scale(1.5);
       }},
      {"optimizer.min_scale",
       [](Spec& s) { s.mutable_optimizer()->set_min_scale(0.1); }},
      {"optimizer.decay_fraction",
       [](Spec& s) {
         s.mutable_optimizer()->set_decay(v1::OptimizerSpec::WSD);
         s.mutable_optimizer()->set_decay_fraction(0);
       }},
      {"optimizer.decay_fraction",
       [](Spec& s) { s.mutable_optimizer()->set_decay_fraction(0.2); }},
      {"optimizer.learning_rate_tables",
       [](Spec& s) {
         s.mutable_optimizer()->set_learning_rate_tables(-1);
       }},
      {"optimizer.clip_norm",
       [](Spec& s) { s.mutable_optimizer()->set_clip_norm(-1); }},
      // Errors in training and resources.
      {"training.batch_size",
       [](Spec& s) { s.mutable_training()->clear_batch_size(); }},
      {"training.batch_size",
       [](Spec& s) { s.mutable_training()->set_batch_size(33); }},
      {"training.batch_size",
       [](Spec& s) { s.mutable_training()->set_batch_size((1 << 20) + 2); }},
      {"training.report_every_steps",
       [](Spec& s) { s.mutable_training()->set_report_every_steps(-1); }},
      {"training.validate_every_steps",
       [](Spec& s) { s.mutable_training()->set_validate_every_steps(-1); }},
      {"training.validation_samples",
       [](Spec& s) { s.mutable_training()->set_validation_samples(-2); }},
      {"training.validation_samples",
       [](Spec& s) { s.mutable_training()->set_validation_samples(0); }},
      {"training.precision",
       [](Spec& s) {
         s.mutable_training()->set_precision(
             static_cast<v1::TrainingSpec::Precision>(4));
       }},
      {"resources.min_processes",
       [](Spec& s) { s.mutable_resources()->set_min_processes(-1); }},
      {"resources.min_processes",
       [](Spec& s) {
         s.mutable_resources()->set_processes(2);
         s.mutable_resources()->set_min_processes(4);
       }},
      {"resources.processes",
       [](Spec& s) { s.mutable_resources()->set_processes(-1); }},
      {"resources.processes",
       [](Spec& s) {
         s.mutable_resources()->set_processes(2048);
         s.mutable_training()->set_batch_size(4096);
       }},
      {"resources.threads_per_process",
       [](Spec& s) { s.mutable_resources()->set_threads_per_process(-1); }},
      {"resources.memory_bytes",
       [](Spec& s) { s.mutable_resources()->set_memory_bytes(-1); }},
      {"resources.device",
       [](Spec& s) {
         s.mutable_resources()->set_device(
             static_cast<v1::ResourceSpec::Device>(3));
       }},
      // Errors in administration.
      {"display_name", [](Spec& s) { s.set_display_name("\xc0\xaf"); }},
      {"display_name", [](Spec& s) { s.set_display_name("a\x1b[2J"); }},
      {"display_name", [](Spec& s) { s.set_display_name("a\u0085"); }},
      {"display_name",
       [](Spec& s) { s.set_display_name(std::string(300, 'x')); }},
      {"display_name",
       [](Spec& s) { s.set_display_name(std::string(1 << 20, 'x')); }},
      {"labels",
       [](Spec& s) {
         for (int i = 0; i < 65; ++i) {
           (*s.mutable_labels())[absl::StrCat("k", i)] = "v";
         }
       }},
      {"labels[a b]", [](Spec& s) { (*s.mutable_labels())["a b"] = "v"; }},
      {"labels[]", [](Spec& s) { (*s.mutable_labels())[""] = "v"; }},
      {"labels[a]",
       [](Spec& s) { (*s.mutable_labels())["a"] = std::string(256, 'v'); }},
      {"queue", [](Spec& s) { s.set_queue("A queue"); }},
      {"priority", [](Spec& s) { s.set_priority(1001); }},
      {"priority", [](Spec& s) { s.set_priority(-1001); }},
      {"retries.infrastructure",
       [](Spec& s) { s.mutable_retries()->set_infrastructure(-1); }},
      {"retries.training",
       [](Spec& s) { s.mutable_retries()->set_training(-1); }},
      {"time_limit", [](Spec& s) { s.mutable_time_limit(); }},
      {"time_limit", [](Spec& s) { s.mutable_time_limit()->set_seconds(-60); }},
      {"time_limit",
       [](Spec& s) { s.mutable_time_limit()->set_seconds(kHuge); }},
      {"checkpoint.every_steps",
       [](Spec& s) { s.mutable_checkpoint()->set_every_steps(-1); }},
      {"checkpoint.keep", [](Spec& s) { s.mutable_checkpoint()->set_keep(1); }},
      {"checkpoint.replicas",
       [](Spec& s) { s.mutable_checkpoint()->set_replicas(9); }},
      {"checkpoint.snapshot_every_steps",
       [](Spec& s) { s.mutable_checkpoint()->set_snapshot_every_steps(-1); }},
      {"retries.classes[0].failure_class",
       [](Spec& s) {
         s.mutable_retries()->add_classes()->set_failure_class(v1::USER);
       }},
      {"retries.classes[1].failure_class",
       [](Spec& s) {
         for (int i = 0; i < 2; ++i) {
           s.mutable_retries()->add_classes()->set_failure_class(v1::NODE_LOST);
         }
       }},
      {"retries.classes[0].retries",
       [](Spec& s) {
         v1::ClassBudget& budget = *s.mutable_retries()->add_classes();
         budget.set_failure_class(v1::NODE_LOST);
         budget.set_retries(-1);
       }},
      {"99",  // a field of another version
       [](Spec& s) {
         s.GetReflection()->MutableUnknownFields(&s)->AddVarint(99, 1);
       }},
  };
  return *specs;
}

const std::vector<BadSpec>& BadClassifierSpecs() {
  static const auto* specs = new std::vector<BadSpec>{
      {"model.classes", [](Spec& s) { s.mutable_model()->clear_classes(); }},
      {"model.classes", [](Spec& s) { s.mutable_model()->set_classes(1); }},
      {"data.glue_tsv.train",
       [](Spec& s) { s.mutable_data()->mutable_glue_tsv()->clear_train(); }},
      {"data.glue_tsv.validation",
       [](Spec& s) {
         s.mutable_data()->mutable_glue_tsv()->set_validation("../dev.tsv");
       }},
      {"data.glue_tsv.sentence1_column",
       [](Spec& s) {
         s.mutable_data()->mutable_glue_tsv()->set_sentence1_column(-1);
       }},
      {"data.glue_tsv.label_column",
       [](Spec& s) {
         s.mutable_data()->mutable_glue_tsv()->set_label_column(5000);
       }},
      {"data.glue_tsv.labels",
       [](Spec& s) { s.mutable_data()->mutable_glue_tsv()->clear_labels(); }},
      {"data.glue_tsv.labels",
       [](Spec& s) {
         s.mutable_data()->mutable_glue_tsv()->set_labels(1, "entailment");
       }},
      {"data.glue_tsv.labels",
       [](Spec& s) {
         s.mutable_data()->mutable_glue_tsv()->set_labels(1, "");
       }},
      {"data",
       [](Spec& s) {
         auto* code = s.mutable_data()->mutable_code_directory();
         code->add_roots("/usr/include");
         code->add_globs("*.h");
       }},
      {"data.mask_probability",
       [](Spec& s) { s.mutable_data()->set_mask_probability(0.15); }},
      {"data.tokenizer.kind",
       [](Spec& s) { s.mutable_data()->mutable_tokenizer()->clear_kind(); }},
      {"data.tokenizer.vocabulary_file",
       [](Spec& s) {
         s.mutable_data()->mutable_tokenizer()->clear_vocabulary_file();
       }},
      {"data.tokenizer.vocabulary_file",
       [](Spec& s) {
         s.mutable_data()->mutable_tokenizer()->set_vocabulary_file("v.txt");
       }},
      {"data.tokenizer.merges_file",
       [](Spec& s) {
         s.mutable_data()->mutable_tokenizer()->set_merges_file("/m.txt");
       }},
      {"data.tokenizer.train_vocabulary_size",
       [](Spec& s) {
         s.mutable_data()->mutable_tokenizer()->set_train_vocabulary_size(500);
       }},
      {"compression.output",
       [](Spec& s) {
         s.mutable_compression()->mutable_output()->add_ranks(3);
       }},
  };
  return *specs;
}

TEST(JobValidationTest, RefusesBadMaskedLmSpecsByField) {
  EXPECT_GE(BadMaskedLmSpecs().size(), 60u);
  ExpectRefused(MaskedLmSpec(), BadMaskedLmSpecs());
}

TEST(JobValidationTest, RefusesBadClassifierSpecsByField) {
  ExpectRefused(ClassifierSpec(), BadClassifierSpecs());
}

TEST(JobValidationTest, LabelsThatAreNoTextAreRefused) {
  Spec spec = MaskedLmSpec();
  spec.clear_labels();
  (*spec.mutable_labels())["\xff"] = "v";
  const auto violations = ValidateJobSpec(spec);
  ASSERT_EQ(violations.size(), 1u) << Describe(violations);
  EXPECT_EQ(violations[0].field, "labels[0].key");
}

TEST(JobValidationTest, LabelsThatLookLikeSecretsAreRefused) {
  const auto violations = [](const std::string& key, const std::string& value) {
    v1::JobSpec spec = MaskedLmSpec();
    (*spec.mutable_labels())[key] = value;
    return ValidateJobSpec(spec);
  };
  const std::string token = "comera_abcdefghijkl_" + std::string(64, 'a');
  for (const char* key :
       {"password", "DB_PASSWORD", "api-token", "token", "token_2", "Secret",
        "aws.secret.key", "apikey", "ssh-private-key", "credentials"}) {
    const auto found = violations(key, "hunter2");
    ASSERT_EQ(found.size(), 1u) << key;
    EXPECT_EQ(found[0].field, std::string("labels[") + key + "]");
    EXPECT_EQ(found[0].description.find("hunter2"), std::string::npos);
  }
  for (const std::string& value :
       {token, "x " + token, std::string("-----BEGIN PRIVATE KEY-----")}) {
    const auto found = violations("note", value);
    ASSERT_EQ(found.size(), 1u) << value;
    EXPECT_EQ(found[0].description.find("aaaa"), std::string::npos);
  }
  for (const char* key : {"tokenizer", "tokens_per_batch", "team", "passage"}) {
    EXPECT_TRUE(violations(key, "comera_v2").empty()) << key;
  }
  v1::JobSpec spec = MaskedLmSpec();
  spec.set_display_name(token);
  const auto found = ValidateJobSpec(spec);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].field, "display_name");
}

TEST(JobValidationTest, AcceptsSoundSpecsBeforeAndAfterDefaults) {
  for (const Spec& spec : {MaskedLmSpec(), ClassifierSpec()}) {
    EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
    EXPECT_EQ(Describe(ValidateJobSpec(WithDefaults(spec))), "");
  }
}

TEST(JobValidationTest, AcceptsWhatLiesOnABound) {
  Spec spec = MaskedLmSpec();
  spec.set_priority(-1000);
  spec.mutable_objective()->mutable_late()->set_target_ratio(1);
  spec.mutable_objective()->mutable_early()->set_steps(0);
  spec.mutable_training()->set_validation_samples(-1);
  spec.mutable_model()->set_max_positions(64);
  spec.mutable_optimizer()->set_clip_norm(0);
  spec.mutable_time_limit()->set_nanos(1);
  spec.set_display_name("na\u00efve \u6a21\u578b \U0001F600");
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
}

TEST(JobValidationTest, AnEarlyStageAloneNeedsNoTargets) {
  Spec spec = MaskedLmSpec();
  spec.mutable_objective()->mutable_early()->set_only(true);
  spec.mutable_objective()->mutable_early()->set_steps(10);
  spec.mutable_objective()->clear_late();
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
  spec.mutable_objective()->mutable_late()->set_max_steps(20);
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
  EXPECT_EQ(Describe(ValidateJobSpec(WithDefaults(spec))), "");
  spec.mutable_objective()->mutable_late()->set_max_steps(-1);
  EXPECT_NE(Describe(ValidateJobSpec(spec)).find("objective.late.max_steps"),
            std::string::npos);
  spec.mutable_objective()->clear_late();
  spec.mutable_objective()->mutable_early()->set_steps(0);
  EXPECT_NE(Describe(ValidateJobSpec(spec)).find("objective.early.steps"),
            std::string::npos);
}

TEST(JobValidationTest, StartsFromAnyCheckpoint) {
  Spec spec = MaskedLmSpec();
  spec.mutable_objective()->mutable_early()->set_steps(30);
  spec.mutable_start_from()->set_checkpoint("jobs/a/checkpoints/30");
  ASSERT_TRUE(spec.objective().has_late());
  // The end of the early stage, and states in the middle of both.
  for (const char* good : {"jobs/a/checkpoints/30", "jobs/a/checkpoints/7",
                           "jobs/a/checkpoints/31"}) {
    spec.mutable_start_from()->set_checkpoint(good);
    EXPECT_EQ(Describe(ValidateJobSpec(spec)), "") << good;
  }
  for (const char* bad :
       {"", "jobs/a", "jobs/a/checkpoints/030", "jobs/a/checkpoints/-3",
        "jobs/../checkpoints/30", "jobs/a/models/30"}) {
    spec.mutable_start_from()->set_checkpoint(bad);
    EXPECT_NE(Describe(ValidateJobSpec(spec)).find("start_from.checkpoint"),
              std::string::npos)
        << bad;
  }
  spec.mutable_start_from()->set_checkpoint("jobs/a/checkpoints/30");
  spec.mutable_objective()->clear_late();
  EXPECT_NE(Describe(ValidateJobSpec(spec)).find("objective.late is missing"),
            std::string::npos);
}

TEST(JobValidationTest, EmptySpecNamesWhatIsMissing) {
  const std::string text = Describe(ValidateJobSpec(Spec()));
  for (const char* field : {"model.family", "model.layers", "model.hidden",
                            "model.heads", "data: ", "data.tokenizer.kind",
                            "objective.early.steps", "training.batch_size"}) {
    EXPECT_NE(text.find(field), std::string::npos) << field << " in\n" << text;
  }
}

}  // namespace
}  // namespace comera
