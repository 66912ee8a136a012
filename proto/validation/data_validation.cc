// Checks each kind of data source and its tokenizer.

#include "proto/validation/data_validation.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "proto/validation/data_path_check.h"
#include "proto/validation/dlrm_validation.h"

namespace comera {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 50;
constexpr int kMaxEntries = 64;
constexpr int64_t kMaxBadRows = 10'000'000;
constexpr char kVocabularyFile[] = "data.tokenizer.vocabulary_file";
constexpr char kMergesFile[] = "data.tokenizer.merges_file";
constexpr char kTokenizerFile[] = "data.tokenizer.tokenizer_file";
constexpr char kVocabularySize[] = "data.tokenizer.train_vocabulary_size";

void CheckPath(const std::string& field, const std::string& path,
               SpecChecker& check) {
  CheckDataPath(field, path, PathKind::kFile, check);
}

// A path that may be missing.
void CheckOptionalPath(const std::string& field, const std::string& path,
                       SpecChecker& check) {
  if (!path.empty()) CheckPath(field, path, check);
}

void CheckLabels(const std::string& field,
                 const google::protobuf::RepeatedPtrField<std::string>& labels,
                 int classes, SpecChecker& check) {
  check.Require(labels.size() == classes, field,
                absl::StrCat("names ", labels.size(), " labels for ", classes,
                             " classes"));
  const std::set<std::string> distinct(labels.begin(), labels.end());
  check.Require(static_cast<int>(distinct.size()) == labels.size(), field,
                "names a label twice");
  check.Require(distinct.count("") == 0, field, "holds an empty label");
}

void CheckGlueTsv(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::GlueTsv& glue = spec.data().glue_tsv();
  CheckPath("data.glue_tsv.train", glue.train(), check);
  CheckPath("data.glue_tsv.validation", glue.validation(), check);
  CheckOptionalPath("data.glue_tsv.test", glue.test(), check);
  check.Range("data.glue_tsv.sentence1_column", glue.sentence1_column(), 0,
              1023);
  // Negative: there is no second sentence.
  check.Range("data.glue_tsv.sentence2_column", glue.sentence2_column(), -1,
              1023);
  check.Range("data.glue_tsv.label_column", glue.label_column(), -1024, 1023);
  if (spec.model().family() != v1::ModelSpec::ENCODER_CLASSIFIER) return;
  CheckLabels("data.glue_tsv.labels", glue.labels(), spec.model().classes(),
              check);
}

// The format of a file of labelled texts is that which its name ends with.
void CheckLabelledFile(const std::string& field, const std::string& path,
                       SpecChecker& check) {
  CheckPath(field, path, check);
  if (path.empty()) return;
  absl::string_view name = path;
  absl::ConsumeSuffix(&name, ".gz");
  check.Require(absl::EndsWith(name, ".csv") || absl::EndsWith(name, ".tsv") ||
                    absl::EndsWith(name, ".jsonl"),
                field, "must end with .csv, .tsv or .jsonl, or one with .gz");
}

void CheckLabelledText(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::LabelledText& labelled = spec.data().labelled_text();
  const std::string prefix = "data.labelled_text.";
  CheckLabelledFile(prefix + "train", labelled.train(), check);
  const double fraction = labelled.validation_fraction();
  if (labelled.validation().empty()) {
    check.Require(fraction > 0 && fraction < 1, prefix + "validation_fraction",
                  "must lie between 0 and 1");
  } else {
    CheckLabelledFile(prefix + "validation", labelled.validation(), check);
    check.Require(fraction == 0, prefix + "validation_fraction",
                  "excludes data.labelled_text.validation");
  }
  if (!labelled.test().empty()) {
    CheckLabelledFile(prefix + "test", labelled.test(), check);
  }
  check.Require(labelled.second_text() != labelled.text(),
                prefix + "second_text", "is the same as text");
  check.Require(labelled.label() != labelled.text() &&
                    labelled.label() != labelled.second_text(),
                prefix + "label", "is also a text");
  if (spec.model().family() != v1::ModelSpec::ENCODER_CLASSIFIER) {
    return check.Add("data.labelled_text",
                     "is for ENCODER_CLASSIFIER only; text and jsonl hold "
                     "texts without labels");
  }
  if (!labelled.labels().empty()) {
    CheckLabels(prefix + "labels", labelled.labels(), spec.model().classes(),
                check);
  }
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
                  code.roots(i), PathKind::kFolder, check);
  }
  CheckList("data.code_directory.globs", code.globs(), check);
  check.Require(
      code.validation_fraction() > 0 && code.validation_fraction() < 1,
      "data.code_directory.validation_fraction", "must lie between 0 and 1");
  check.Require(
      code.test_fraction() >= 0 &&
          code.test_fraction() + code.validation_fraction() < 1,
      "data.code_directory.test_fraction",
      "must be at least 0 and, with validation_fraction, less than 1");
  check.Range("data.code_directory.max_bytes", code.max_bytes(), 0, kMaxBytes);
  check.Range("data.code_directory.max_file_bytes", code.max_file_bytes(), 0,
              kMaxBytes);
}

// A list of files that may be empty.
void CheckFiles(const std::string& field,
                const google::protobuf::RepeatedPtrField<std::string>& files,
                SpecChecker& check) {
  check.Range(field, files.size(), 0, kMaxEntries, "entries");
  for (int i = 0; i < std::min(files.size(), kMaxEntries); ++i) {
    CheckDataPath(absl::StrCat(field, "[", i, "]"), files[i], PathKind::kFiles,
                  check);
  }
}

void CheckText(const v1::Text& text, SpecChecker& check) {
  const std::string prefix = "data.text.";
  check.Require(!text.train().empty(), prefix + "train",
                "is missing: files or patterns of them");
  CheckFiles(prefix + "train", text.train(), check);
  CheckFiles(prefix + "validation", text.validation(), check);
  CheckFiles(prefix + "test", text.test(), check);
  const double fraction = text.validation_fraction();
  if (text.validation().empty()) {
    check.Require(fraction > 0 && fraction < 1, prefix + "validation_fraction",
                  "must lie between 0 and 1");
  } else {
    check.Require(fraction == 0, prefix + "validation_fraction",
                  "excludes data.text.validation");
  }
  check.Range(prefix + "max_bad_rows", text.max_bad_rows(), 0, kMaxBadRows);
}

void CheckTokenShards(const v1::JobSpec& spec, SpecChecker& check) {
  const v1::TokenShards& shards = spec.data().token_shards();
  const std::string prefix = "data.token_shards.";
  CheckDataPath(prefix + "train", shards.train(), PathKind::kFolder, check);
  const double fraction = shards.validation_fraction();
  if (shards.validation().empty()) {
    check.Require(fraction > 0 && fraction < 1, prefix + "validation_fraction",
                  "must lie between 0 and 1");
  } else {
    CheckDataPath(prefix + "validation", shards.validation(), PathKind::kFolder,
                  check);
    check.Require(fraction == 0, prefix + "validation_fraction",
                  "excludes data.token_shards.validation");
  }
  if (!shards.test().empty()) {
    CheckDataPath(prefix + "test", shards.test(), PathKind::kFolder, check);
  }
  check.Require(spec.model().family() != v1::ModelSpec::MASKED_LM,
                "data.token_shards",
                "is for CAUSAL_LM only; text reads what it is made from");
  check.Require(spec.data().tokenizer().train_vocabulary_size() == 0,
                kVocabularySize,
                "contradicts data.token_shards, which have their tokenizer");
}

// Refuses what tokenizers of other kinds are made of.
void CheckOtherTokenizers(const v1::TokenizerSpec& tokenizer,
                          SpecChecker& check) {
  using Tokenizer = v1::TokenizerSpec;
  const Tokenizer::Kind kind = tokenizer.kind();
  const bool byte_bpe = kind == Tokenizer::BYTE_BPE;
  check.Require(tokenizer.vocabulary_file().empty() || byte_bpe ||
                    kind == Tokenizer::WORDPIECE,
                kVocabularyFile, "is for WORDPIECE and BYTE_BPE");
  check.Require(tokenizer.merges_file().empty() || byte_bpe, kMergesFile,
                "is for BYTE_BPE");
  check.Require(tokenizer.train_vocabulary_size() == 0 || byte_bpe,
                kVocabularySize, "is for BYTE_BPE");
  check.Require(tokenizer.tokenizer_file().empty() ||
                    kind == Tokenizer::HUGGING_FACE ||
                    kind == Tokenizer::SENTENCEPIECE,
                kTokenizerFile, "is for HUGGING_FACE and SENTENCEPIECE");
}

void CheckByteBpe(const v1::TokenizerSpec& tokenizer, SpecChecker& check) {
  if (tokenizer.train_vocabulary_size() != 0) {
    check.Range(kVocabularySize, tokenizer.train_vocabulary_size(), 300, 65536);
    check.Require(tokenizer.vocabulary_file().empty(), kVocabularyFile,
                  "contradicts train_vocabulary_size");
    check.Require(tokenizer.merges_file().empty(), kMergesFile,
                  "contradicts train_vocabulary_size");
  } else if (tokenizer.vocabulary_file().empty() &&
             tokenizer.merges_file().empty()) {
    check.Add(kVocabularySize,
              "is missing: 300 to 65536, or give vocabulary_file and "
              "merges_file");
  } else {
    CheckPath(kVocabularyFile, tokenizer.vocabulary_file(), check);
    CheckPath(kMergesFile, tokenizer.merges_file(), check);
  }
}

void CheckTokenizer(const v1::TokenizerSpec& tokenizer,
                    v1::ModelSpec::Family family, SpecChecker& check) {
  if (tokenizer.kind() == v1::TokenizerSpec::KIND_UNSPECIFIED) {
    return check.Add("data.tokenizer.kind",
                     "is missing: WORDPIECE, BYTE_BPE, CHARACTERS, "
                     "HUGGING_FACE or SENTENCEPIECE");
  }
  check.Require(tokenizer.kind() != v1::TokenizerSpec::CHARACTERS ||
                    family == v1::ModelSpec::CAUSAL_LM,
                "data.tokenizer.kind",
                "CHARACTERS is for CAUSAL_LM only: it has no tokens that begin "
                "and end a sample");
  CheckOtherTokenizers(tokenizer, check);
  switch (tokenizer.kind()) {
    case v1::TokenizerSpec::WORDPIECE:
      return CheckPath(kVocabularyFile, tokenizer.vocabulary_file(), check);
    case v1::TokenizerSpec::BYTE_BPE:
      return CheckByteBpe(tokenizer, check);
    case v1::TokenizerSpec::HUGGING_FACE:
    case v1::TokenizerSpec::SENTENCEPIECE:
      return CheckPath(kTokenizerFile, tokenizer.tokenizer_file(), check);
    default:  // CHARACTERS come from the text alone
      return;
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
      CheckOptionalPath("data.jsonl.test", data.jsonl().test(), check);
      CheckList("data.jsonl.fields", data.jsonl().fields(), check);
      break;
    case v1::DataSpec::kLabelledText:
      CheckLabelledText(spec, check);
      break;
    case v1::DataSpec::kText:
      CheckText(data.text(), check);
      break;
    case v1::DataSpec::kTokenShards:
      CheckTokenShards(spec, check);
      break;
    case v1::DataSpec::FORMAT_NOT_SET:
      check.Add("data",
                "is missing: labelled_text, glue_tsv, text, token_shards, "
                "code_directory or jsonl");
      break;
    default:  // click logs are refused with the model
      break;
  }
  if (classifier && data.format_case() != v1::DataSpec::FORMAT_NOT_SET) {
    check.Require(data.has_glue_tsv() || data.has_labelled_text(), "data",
                  "holds no labels for ENCODER_CLASSIFIER; labelled_text and "
                  "glue_tsv do");
  }
  check.Require(
      !data.has_glue_tsv() || spec.model().family() != v1::ModelSpec::CAUSAL_LM,
      "data.glue_tsv",
      "is not for CAUSAL_LM, which takes text, token_shards, code_directory "
      "or jsonl");
  // Token shards have their own; one that is named has to be the same.
  if (!data.has_token_shards() ||
      (data.tokenizer().kind() != v1::TokenizerSpec::KIND_UNSPECIFIED &&
       data.tokenizer().train_vocabulary_size() == 0)) {
    CheckTokenizer(data.tokenizer(), spec.model().family(), check);
  }
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
