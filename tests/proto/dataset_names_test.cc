// Checks references to datasets, and where jobs may use them.

#include "proto/dataset_names.h"

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "proto/data_paths.h"
#include "proto/validation/job_validation.h"
#include "tests/proto/sample_specs.h"

namespace comera {
namespace {

TEST(DatasetNamesTest, ReferencesParse) {
  auto reference = ParseDatasetReference("datasets/mnli/dev/m.tsv");
  ASSERT_TRUE(reference.has_value());
  EXPECT_EQ(reference->dataset, "mnli");
  EXPECT_EQ(reference->version, 0);
  EXPECT_EQ(reference->path, "dev/m.tsv");
  EXPECT_EQ(DatasetPart(*reference), "datasets/mnli");
  reference = ParseDatasetReference("datasets/mnli@12");
  ASSERT_TRUE(reference.has_value());
  EXPECT_EQ(reference->version, 12);
  EXPECT_EQ(reference->path, "");
  EXPECT_EQ(DatasetPart(*reference), "datasets/mnli@12");
}

TEST(DatasetNamesTest, RefusesWhatCouldBecomeAnotherPath) {
  for (const char* text : {"",
                           "datasets",
                           "datasets/",
                           "datasets//a",
                           "datasets/../a",
                           "datasets/a/",
                           "datasets/a/../b",
                           "datasets/a/b/..",
                           "datasets/a/./b",
                           "datasets/a//b",
                           "datasets/a/b/",
                           "datasets/a@",
                           "datasets/a@0",
                           "datasets/a@01",
                           "datasets/a@-1",
                           "datasets/a@1x",
                           "datasets/@1",
                           "datasets/a@9999999999",
                           "datasets/A/b",
                           "datasets/a b/c",
                           "datasets/a/b\n",
                           "/datasets/a/b",
                           "jobs/a"}) {
    EXPECT_FALSE(ParseDatasetReference(text).has_value()) << text;
  }
}

TEST(DatasetNamesTest, PathsAreBounded) {
  EXPECT_TRUE(IsDatasetPath("a"));
  EXPECT_TRUE(IsDatasetPath("src/über x/.hidden..c"));
  EXPECT_TRUE(IsDatasetPath(std::string(255, 'a')));
  EXPECT_FALSE(IsDatasetPath(std::string(256, 'a')));
  EXPECT_FALSE(IsDatasetPath(""));
  EXPECT_FALSE(IsDatasetPath("/a"));
  EXPECT_FALSE(IsDatasetPath(std::string("a\0b", 3)));
  std::string deep = "a";
  for (int i = 0; i < 32; ++i) deep += "/a";
  EXPECT_TRUE(IsDatasetPath(deep));
  EXPECT_FALSE(IsDatasetPath(deep + "/a"));
  std::string longer;
  for (int i = 0; i < 3; ++i) longer += std::string(200, 'a') + "/";
  EXPECT_FALSE(IsDatasetPath(longer + "a"));
}

TEST(DatasetNamesTest, PatternsMatchWithinThePartsOfAPath) {
  EXPECT_TRUE(IsFilePattern("a/*.txt"));
  EXPECT_TRUE(IsFilePattern("a?"));
  EXPECT_TRUE(IsFilePattern("[ab]"));
  EXPECT_FALSE(IsFilePattern("a/b.txt"));
  EXPECT_TRUE(MatchesFilePattern("a/*.txt", "a/b.txt"));
  EXPECT_TRUE(MatchesFilePattern("*/[b-d]?.txt", "a/c1.txt"));
  EXPECT_TRUE(MatchesFilePattern("a[1]/*", "a[1]/b"));  // a part is itself
  EXPECT_FALSE(MatchesFilePattern("a/*.txt", "a/b/c.txt"));
  EXPECT_FALSE(MatchesFilePattern("*", "a/b"));
  EXPECT_FALSE(MatchesFilePattern("*/*", "a"));
  EXPECT_FALSE(MatchesFilePattern("a/*", "a/.hidden"));
  EXPECT_FALSE(MatchesFilePattern("a/*.txt", "b/b.txt"));
}

TEST(DatasetNamesTest, DigestsAreLowerCaseHexadecimal) {
  EXPECT_TRUE(IsSha256(std::string(64, 'a')));
  EXPECT_FALSE(IsSha256(std::string(64, 'A')));
  EXPECT_FALSE(IsSha256(std::string(63, 'a')));
  EXPECT_FALSE(IsSha256(std::string(62, 'a') + ".."));
}

TEST(DataPathsTest, FindsEveryPath) {
  v1::JobSpec spec;
  v1::DataSpec& data = *spec.mutable_data();
  data.mutable_code_directory()->add_roots("r0");
  data.mutable_code_directory()->add_roots("r1");
  data.mutable_tokenizer()->set_vocabulary_file("v");
  data.mutable_tokenizer()->set_merges_file("m");
  spec.mutable_initial_weights()->set_safetensors("w");
  std::string fields;
  for (const DataPath& path : DataPaths(&spec)) {
    fields += path.field + "=" + *path.path +
              (path.kind == PathKind::kFolder ? "/ " : " ");
    *path.path = "changed";
  }
  EXPECT_EQ(fields,
            "data.code_directory.roots[0]=r0/ data.code_directory.roots[1]=r1/ "
            "data.tokenizer.vocabulary_file=v data.tokenizer.merges_file=m "
            "initial_weights.safetensors=w ");
  EXPECT_EQ(spec.initial_weights().safetensors(), "changed");
  data.mutable_criteo_tsv()->add_files("c");
  EXPECT_EQ(DataPaths(&spec)[0].field, "data.criteo_tsv.files[0]");
  data.mutable_jsonl()->set_train("t");
  EXPECT_EQ(DataPaths(&spec)[0].field, "data.jsonl.train");
  data.mutable_glue_tsv()->set_validation("t");
  EXPECT_EQ(DataPaths(&spec)[0].field, "data.glue_tsv.validation");
  data.mutable_glue_tsv()->set_test("e");
  EXPECT_EQ(DataPaths(&spec)[1].field, "data.glue_tsv.test");
  data.mutable_jsonl()->set_test("e");
  EXPECT_EQ(DataPaths(&spec)[0].field, "data.jsonl.test");
  data.mutable_labelled_text()->set_train("t");
  data.mutable_labelled_text()->set_validation("v");
  data.mutable_labelled_text()->set_test("e");
  EXPECT_EQ(DataPaths(&spec)[0].field, "data.labelled_text.train");
  EXPECT_EQ(DataPaths(&spec)[1].field, "data.labelled_text.validation");
  EXPECT_EQ(DataPaths(&spec)[2].field, "data.labelled_text.test");
}

TEST(DataPathsTest, FindsPatternsTokenizersAndCheckpoints) {
  v1::JobSpec spec;
  v1::Text& text = *spec.mutable_data()->mutable_text();
  text.add_train("a/*.txt");
  text.add_train("b");
  text.add_validation("v");
  text.add_test("e");
  spec.mutable_data()->mutable_tokenizer()->set_tokenizer_file("t");
  spec.mutable_initial_weights()->set_safetensors("w");
  std::string fields;
  for (const DataPath& path : DataPaths(&spec)) {
    fields += path.field + "=" + *path.path + " ";
    EXPECT_EQ(path.kind == PathKind::kFiles,
              path.field.rfind("data.text", 0) == 0);
    EXPECT_EQ(path.kind == PathKind::kFileOrFolder,
              path.field == "initial_weights.safetensors");
  }
  EXPECT_EQ(fields,
            "data.text.train[0]=a/*.txt data.text.train[1]=b "
            "data.text.validation[0]=v data.text.test[0]=e "
            "data.tokenizer.tokenizer_file=t initial_weights.safetensors=w ");
}

// The fields that validation reports for a code corpus with this root.
std::set<std::string> Violations(const std::string& root) {
  v1::JobSpec spec = MaskedLmSpec();
  spec.mutable_data()->mutable_code_directory()->set_roots(0, root);
  std::set<std::string> fields;
  for (const FieldViolation& violation : ValidateJobSpec(spec)) {
    fields.insert(violation.field);
  }
  return fields;
}

TEST(DataPathsTest, DatasetsAreValidPaths) {
  EXPECT_TRUE(Violations("datasets/linux").empty());
  EXPECT_TRUE(Violations("datasets/linux@3/kernel").empty());
  const std::set<std::string> bad = {"data.code_directory.roots[0]"};
  EXPECT_EQ(Violations("datasets/linux/../../etc"), bad);
  EXPECT_EQ(Violations("datasets/"), bad);

  v1::JobSpec spec = ClassifierSpec();
  spec.mutable_data()->mutable_glue_tsv()->set_train("datasets/mnli/t.tsv");
  EXPECT_TRUE(ValidateJobSpec(spec).empty());
  // A whole dataset is not a file.
  spec.mutable_data()->mutable_glue_tsv()->set_train("datasets/mnli");
  ASSERT_EQ(ValidateJobSpec(spec).size(), 1);
  EXPECT_EQ(ValidateJobSpec(spec)[0].field, "data.glue_tsv.train");
  // A checkpoint may be a folder.
  spec = ClassifierSpec();
  spec.mutable_initial_weights()->set_safetensors("datasets/bert");
  EXPECT_TRUE(ValidateJobSpec(spec).empty());
}

}  // namespace
}  // namespace comera
