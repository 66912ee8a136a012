// Checks each kind of data source and its tokenizer.

#include "proto/data_validation.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/data_path_check.h"
#include "proto/dlrm_validation.h"

namespace comera {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 50;
constexpr int kMaxEntries = 64;

void CheckPath(const std::string& field, const std::string& path,
               SpecChecker& check) {
  CheckDataPath(field, path, /*folder=*/false, check);
}

void CheckGlueTsv(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::GlueTsv& glue = spec.data().glue_tsv();
  CheckPath("data.glue_tsv.train", glue.train(), check);
  CheckPath("data.glue_tsv.validation", glue.validation(), check);
  check.Range("data.glue_tsv.sentence1_column", glue.sentence1_column(), 0,
              1023);
  check.Range("data.glue_tsv.sentence2_column", glue.sentence2_column(), 0,
              1023);
  check.Range("data.glue_tsv.label_column", glue.label_column(), -1024, 1023);
  if (spec.model().family() != v1::ModelSpec::ENCODER_CLASSIFIER) return;
  check.Require(glue.labels_size() == spec.model().classes(),
                "data.glue_tsv.labels",
                absl::StrCat("names ", glue.labels_size(), " labels for ",
                             spec.model().classes(), " classes"));
  const std::set<std::string> distinct(glue.labels().begin(),
                                       glue.labels().end());
  check.Require(static_cast<int>(distinct.size()) == glue.labels_size(),
                "data.glue_tsv.labels", "names a label twice");
  check.Require(distinct.count("") == 0, "data.glue_tsv.labels",
                "holds an empty label");
}

void CheckList(const std::string& field,
               const google::protobuf::RepeatedPtrField<std::string>& list,
               SpecChecker& check) {
  check.Range(field, list.size(), 1, kMaxEntries, "entries");
  for (int i = 0; i < std::min(list.size(), kMaxEntries); ++i) {
    check.Require(!list[i].empty(), absl::StrCat(field, "[", i, "]"),
                  "is empty");
  }
}

void CheckCodeDirectory(const v1::CodeDirectory& code, SpecChecker& check) {
  CheckList("data.code_directory.roots", code.roots(), check);
  for (int i = 0; i < std::min(code.roots_size(), kMaxEntries); ++i) {
    if (code.roots(i).empty()) continue;
    CheckDataPath(absl::StrCat("data.code_directory.roots[", i, "]"),
                  code.roots(i), /*folder=*/true, check);
  }
  CheckList("data.code_directory.globs", code.globs(), check);
  check.Require(
      code.validation_fraction() > 0 && code.validation_fraction() < 1,
      "data.code_directory.validation_fraction", "must lie between 0 and 1");
  check.Range("data.code_directory.max_bytes", code.max_bytes(), 1, kMaxBytes);
  check.Range("data.code_directory.max_file_bytes", code.max_file_bytes(), 1,
              kMaxBytes);
}

void CheckTokenizer(const v1::TokenizerSpec& tokenizer, SpecChecker& check) {
  const std::string vocabulary = "data.tokenizer.vocabulary_file";
  const std::string merges = "data.tokenizer.merges_file";
  const std::string size = "data.tokenizer.train_vocabulary_size";
  const bool trains = tokenizer.train_vocabulary_size() != 0;
  switch (tokenizer.kind()) {
    case v1::TokenizerSpec::WORDPIECE:
      CheckPath(vocabulary, tokenizer.vocabulary_file(), check);
      check.Require(tokenizer.merges_file().empty(), merges, "is for BYTE_BPE");
      check.Require(!trains, size, "is for BYTE_BPE");
      return;
    case v1::TokenizerSpec::BYTE_BPE:
      if (trains) {
        check.Range(size, tokenizer.train_vocabulary_size(), 300, 65536);
        check.Require(tokenizer.vocabulary_file().empty(), vocabulary,
                      "contradicts train_vocabulary_size");
        check.Require(tokenizer.merges_file().empty(), merges,
                      "contradicts train_vocabulary_size");
      } else if (tokenizer.vocabulary_file().empty() &&
                 tokenizer.merges_file().empty()) {
        check.Add(size,
                  "is missing: 300 to 65536, or give vocabulary_file and "
                  "merges_file");
      } else {
        CheckPath(vocabulary, tokenizer.vocabulary_file(), check);
        CheckPath(merges, tokenizer.merges_file(), check);
      }
      return;
    default:
      check.Add("data.tokenizer.kind", "is missing: WORDPIECE or BYTE_BPE");
  }
}

}  // namespace

void CheckData(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::DataSpec& data = spec.data();
  if (spec.model().family() == v1::ModelSpec::DLRM) {
    CheckClickLog(spec, check);
    return;
  }
  const bool classifier =
      spec.model().family() == v1::ModelSpec::ENCODER_CLASSIFIER;
  switch (data.format_case()) {
    case v1::DataSpec::kGlueTsv:
      CheckGlueTsv(spec, check);
      break;
    case v1::DataSpec::kCodeDirectory:
      CheckCodeDirectory(data.code_directory(), check);
      break;
    case v1::DataSpec::kJsonl:
      CheckPath("data.jsonl.train", data.jsonl().train(), check);
      CheckPath("data.jsonl.validation", data.jsonl().validation(), check);
      CheckList("data.jsonl.fields", data.jsonl().fields(), check);
      break;
    case v1::DataSpec::FORMAT_NOT_SET:
      check.Add("data", "is missing: glue_tsv, code_directory or jsonl");
      break;
    default:  // click logs are refused with the model
      break;
  }
  if (classifier && data.format_case() != v1::DataSpec::FORMAT_NOT_SET) {
    check.Require(data.has_glue_tsv(), "data",
                  "holds no labels for ENCODER_CLASSIFIER; glue_tsv does");
  }
  CheckTokenizer(data.tokenizer(), check);
  check.Range("data.max_length", data.max_length(), 4, 65536);
  if (spec.model().family() == v1::ModelSpec::MASKED_LM) {
    check.Require(data.mask_probability() > 0 && data.mask_probability() < 1,
                  "data.mask_probability", "must lie between 0 and 1");
  } else {
    check.Require(data.mask_probability() == 0, "data.mask_probability",
                  "is for MASKED_LM only");
  }
}

}  // namespace comera
