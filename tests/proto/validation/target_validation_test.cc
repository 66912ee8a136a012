// Checks what targets may ask for, by the model, and how jobs read them.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/job_targets.h"
#include "proto/target_quality.h"
#include "proto/validation/job_validation.h"
#include "tests/proto/sample_specs.h"
#include "tests/proto/validation/bad_specs.h"

namespace comera {
namespace {

v1::LateStage& Late(Spec& s) { return *s.mutable_objective()->mutable_late(); }

v1::JobSpec ClassifierWithTarget(int classes = 3) {
  v1::JobSpec spec = ClassifierSpec();
  spec.mutable_model()->set_classes(classes);
  while (spec.data().glue_tsv().labels_size() > classes) {
    spec.mutable_data()->mutable_glue_tsv()->mutable_labels()->RemoveLast();
  }
  Late(spec).set_target_ratio(0.9);
  Late(spec).set_max_steps(100);
  Late(spec).set_target_accuracy(0.8);
  return spec;
}

TEST(TargetValidationTest, EveryFamilyHasItsFigures) {
  v1::JobSpec classifier = ClassifierWithTarget(2);
  EXPECT_EQ(Describe(ValidateJobSpec(classifier)), "");
  Late(classifier).set_target_f1(0.8);
  EXPECT_EQ(Describe(ValidateJobSpec(classifier)), "");
  Late(classifier).set_target_mcc(0.5);
  EXPECT_EQ(Describe(ValidateJobSpec(classifier)), "");
  Late(classifier).set_target_auc(0.9);
  Late(classifier).set_confidence(0.95);
  EXPECT_EQ(Describe(ValidateJobSpec(classifier)), "");
  v1::JobSpec masked_lm = MaskedLmSpec();
  Late(masked_lm).set_target_perplexity(50);
  EXPECT_EQ(Describe(ValidateJobSpec(masked_lm)), "");
  Late(masked_lm).set_target_accuracy(0.3);
  EXPECT_EQ(Describe(ValidateJobSpec(masked_lm)), "");
  for (v1::JobSpec decoder : {CausalLmSpec(), Gpt2Spec()}) {
    Late(decoder).set_target_perplexity(50);
    Late(decoder).set_target_ratio(1);
    Late(decoder).set_max_steps(10);
    EXPECT_EQ(Describe(ValidateJobSpec(decoder)), "");
    Late(decoder).set_target_loss(3);
    EXPECT_EQ(Describe(ValidateJobSpec(decoder)), "");
  }
  v1::JobSpec dlrm = DlrmSpec();
  Late(dlrm).set_target_ratio(0.9);
  Late(dlrm).set_max_steps(10);
  Late(dlrm).set_target_auc(0.75);
  EXPECT_EQ(Describe(ValidateJobSpec(dlrm)), "");
}

TEST(TargetValidationTest, RefusesFiguresOfOtherFamiliesAndRanges) {
  ExpectRefused(
      ClassifierWithTarget(),
      {{"objective.late.target_accuracy",
        [](Spec& s) { Late(s).set_target_accuracy(1.5); }},
       {"objective.late.target_accuracy",
        [](Spec& s) { Late(s).set_target_accuracy(0); }},
       {"objective.late.target_auc",  // three classes
        [](Spec& s) { Late(s).set_target_auc(0.8); }},
       {"objective.late.target_perplexity",
        [](Spec& s) { Late(s).set_target_perplexity(8); }},
       {"objective.late.confidence",
        [](Spec& s) { Late(s).set_confidence(1); }},
       {"objective.late.confidence",
        [](Spec& s) { Late(s).set_confidence(0.2); }},
       {"objective.late.target_accuracy",
        [](Spec& s) {
          s.mutable_objective()->set_kind(v1::ObjectiveSpec::REFERENCE);
        }},
       {"objective.late.target_accuracy",  // a list instead
        [](Spec& s) {
          Late(s).clear_target_size();
          Late(s).add_targets()->set_target_ratio(0.5);
        }},
       {"objective.late.targets[0].target_f1", [](Spec& s) {
          Late(s).clear_target_size();
          Late(s).clear_target_quality();
          Late(s).add_targets()->set_target_ratio(0.5);
          Late(s).mutable_targets(0)->set_target_f1(2);
        }}});
  ExpectRefused(MaskedLmSpec(),
                {{"objective.late.target_f1",
                  [](Spec& s) { Late(s).set_target_f1(0.5); }},
                 {"objective.late.target_mcc",
                  [](Spec& s) { Late(s).set_target_mcc(0.5); }},
                 {"objective.late.target_auc",
                  [](Spec& s) { Late(s).set_target_auc(0.5); }},
                 {"objective.late.target_perplexity",
                  [](Spec& s) { Late(s).set_target_perplexity(1); }}});
  ExpectRefused(CausalLmSpec(),
                {{"objective.late.target_accuracy",
                  [](Spec& s) { Late(s).set_target_accuracy(0.5); }},
                 {"objective.late.target_f1",
                  [](Spec& s) { Late(s).set_target_f1(0.5); }},
                 {"objective.late.target_auc",
                  [](Spec& s) { Late(s).set_target_auc(0.5); }}});
}

TEST(TargetQualityTest, EveryKindIsReadAndWritten) {
  const std::vector<std::pair<QualityKind, std::string>> kinds = {
      {v1::Target::kTargetLoss, "loss"},
      {v1::Target::kTargetAccuracy, "accuracy"},
      {v1::Target::kTargetF1, "F1"},
      {v1::Target::kTargetMcc, "MCC"},
      {v1::Target::kTargetAuc, "AUC"},
      {v1::Target::kTargetPerplexity, "perplexity"}};
  for (const auto& [kind, name] : kinds) {
    EXPECT_EQ(QualityName(kind), name);
    v1::LateStage late;
    SetQuality({kind, 0.5}, &late);
    EXPECT_EQ(QualityOf(late).kind, kind);
    late.set_target_ratio(0.25);
    // The single target of a late stage asks for the same.
    const std::vector<v1::Target> targets = TargetsOf(late);
    ASSERT_EQ(targets.size(), 1u);
    EXPECT_EQ(QualityOf(targets[0]).kind, kind) << name;
    EXPECT_EQ(QualityOf(targets[0]).value, 0.5);
    EXPECT_EQ(targets[0].target_ratio(), 0.25);
    EXPECT_EQ(LowerIsBetter(kind), kind == v1::Target::kTargetLoss ||
                                       kind == v1::Target::kTargetPerplexity);
    const auto* field =
        v1::Target::descriptor()->FindFieldByName(QualityField(kind));
    ASSERT_NE(field, nullptr) << name;
    EXPECT_EQ(field->number(), static_cast<int>(kind));
  }
  EXPECT_EQ(QualityOf(v1::Target()).kind, v1::Target::TARGET_QUALITY_NOT_SET);
}

}  // namespace
}  // namespace comera
