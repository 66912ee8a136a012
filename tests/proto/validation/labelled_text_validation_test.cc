// Checks jobs on labelled texts: defaults, paths, and what is refused.
#include "gtest/gtest.h"
#include "proto/job_defaults.h"
#include "proto/validation/job_validation.h"
#include "tests/proto/sample_specs.h"
#include "tests/proto/validation/bad_specs.h"

namespace comera {
namespace {

v1::LabelledText& Labelled(Spec& s) {
  return *s.mutable_data()->mutable_labelled_text();
}

v1::JobSpec LabelledSpec() {
  v1::JobSpec spec = ClassifierSpec();
  spec.mutable_model()->clear_classes();
  Labelled(spec).set_train("/data/train.csv.gz");
  return spec;
}

TEST(LabelledTextValidationTest, DefaultsAreFilledIn) {
  const v1::JobSpec filled = WithDefaults(LabelledSpec());
  const v1::LabelledText& labelled = filled.data().labelled_text();
  EXPECT_EQ(labelled.text(), "text");
  EXPECT_EQ(labelled.second_text(), "");
  EXPECT_EQ(labelled.label(), "label");
  EXPECT_EQ(labelled.validation_fraction(), 0.1);
  // The trainer counts the labels that it finds.
  EXPECT_EQ(filled.model().classes(), 0);
  v1::JobSpec spec = LabelledSpec();
  Labelled(spec).set_validation("/data/dev.tsv");
  for (const char* label : {"a", "b", "c"}) Labelled(spec).add_labels(label);
  spec = WithDefaults(spec);
  EXPECT_EQ(spec.model().classes(), 3);
  EXPECT_EQ(spec.data().labelled_text().validation_fraction(), 0);
}

TEST(LabelledTextValidationTest, SoundSpecsPass) {
  v1::JobSpec spec = LabelledSpec();
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
  EXPECT_EQ(Describe(ValidateJobSpec(WithDefaults(spec))), "");
  Labelled(spec).set_train("datasets/sst2/train.tsv");
  Labelled(spec).set_validation("datasets/sst2@3/dev.jsonl");
  Labelled(spec).set_test("/data/test.jsonl.gz");
  Labelled(spec).set_second_text("other");
  spec.mutable_model()->set_classes(5);
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
}

TEST(LabelledTextValidationTest, RefusesBadSpecs) {
  ExpectRefused(
      LabelledSpec(),
      {{"data.labelled_text.train", [](Spec& s) { Labelled(s).clear_train(); }},
       {"data.labelled_text.train",
        [](Spec& s) { Labelled(s).set_train("/data/train.txt"); }},
       {"data.labelled_text.train",
        [](Spec& s) { Labelled(s).set_train("train.csv"); }},
       {"data.labelled_text.train",
        [](Spec& s) { Labelled(s).set_train("datasets/sst2"); }},
       {"data.labelled_text.validation",
        [](Spec& s) { Labelled(s).set_validation("/data/dev.parquet"); }},
       {"data.labelled_text.test",
        [](Spec& s) { Labelled(s).set_test("../test.csv"); }},
       {"data.labelled_text.validation_fraction",
        [](Spec& s) { Labelled(s).set_validation_fraction(1); }},
       {"data.labelled_text.validation_fraction",
        [](Spec& s) {
          Labelled(s).set_validation("/data/dev.csv");
          Labelled(s).set_validation_fraction(0.2);
        }},
       {"data.labelled_text.second_text",
        [](Spec& s) { Labelled(s).set_second_text("text"); }},
       {"data.labelled_text.label",
        [](Spec& s) { Labelled(s).set_label("text"); }},
       {"data.labelled_text.labels",
        [](Spec& s) {
          Labelled(s).add_labels("a");
          Labelled(s).add_labels("b");
          s.mutable_model()->set_classes(3);
        }},
       {"data.labelled_text.labels",
        [](Spec& s) {
          Labelled(s).add_labels("a");
          Labelled(s).add_labels("a");
        }},
       {"model.classes", [](Spec& s) { s.mutable_model()->set_classes(1); }},
       {"data.labelled_text", [](Spec& s) {
          s.mutable_model()->set_family(v1::ModelSpec::MASKED_LM);
        }}});
}

TEST(GlueTsvValidationTest, SingleSentencesAndTestFiles) {
  v1::JobSpec spec = ClassifierSpec();
  v1::GlueTsv& glue = *spec.mutable_data()->mutable_glue_tsv();
  glue.set_sentence1_column(0);
  glue.set_sentence2_column(-1);
  glue.set_test("datasets/sst2/test.tsv");
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
  EXPECT_EQ(WithDefaults(spec).data().glue_tsv().sentence2_column(), -1);
  ExpectRefused(
      spec, {{"data.glue_tsv.sentence2_column",
              [](Spec& s) {
                s.mutable_data()->mutable_glue_tsv()->set_sentence2_column(-2);
              }},
             {"data.glue_tsv.test", [](Spec& s) {
                s.mutable_data()->mutable_glue_tsv()->set_test("t");
              }}});
}

}  // namespace
}  // namespace comera
