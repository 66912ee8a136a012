// Lists the documents of text files and holds the last ones out.
#include "worker/trainer/data/corpus/text_corpus.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "proto/dataset_names.h"
#include "worker/trainer/data/corpus/document_reader.h"
#include "worker/trainer/data/source/file_pattern.h"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

constexpr double kDefaultValidationFraction = 0.1;
// A text is cut at a line end if one is so near.
constexpr size_t kNearBytes = 1000;
constexpr int64_t kReportEvery = 10000;  // documents

using FileNames = google::protobuf::RepeatedPtrField<std::string>;

absl::Status InField(const char* field, const absl::Status& status) {
  return absl::Status(
      status.code(), absl::StrCat("data.text.", field, ": ", status.message()));
}

// The files that a list names or matches, each once.
absl::StatusOr<std::vector<std::string>> ListFiles(const char* field,
                                                   const FileNames& names) {
  std::vector<std::string> files;
  absl::flat_hash_set<std::string> seen;
  for (const std::string& name : names) {
    std::vector<std::string> found = {name};
    if (IsFilePattern(name)) {
      absl::StatusOr<std::vector<std::string>> matches = FindMatches(name);
      if (!matches.ok()) return InField(field, matches.status());
      found = *std::move(matches);
    }
    if (found.empty()) {
      return absl::NotFoundError(absl::StrCat(
          "data.text.", field, ": no file matches ", PrintablePath(name)));
    }
    for (std::string& file : found) {
      if (seen.insert(file).second) files.push_back(std::move(file));
    }
  }
  return files;
}

// Where the end of `text` begins that is held out: at the beginning of a line
// if one is near, and never within a character.
size_t HeldOutStart(absl::string_view text, double fraction) {
  const auto held = static_cast<size_t>(
      std::ceil(fraction * static_cast<double>(text.size())));
  size_t start = text.size() - std::min(held, text.size());
  if (start == 0) return 0;
  const size_t line_end = text.rfind('\n', start - 1);
  if (line_end != absl::string_view::npos &&
      start - (line_end + 1) <= std::min(kNearBytes, held / 2)) {
    return line_end + 1;
  }
  // Bytes of a character after its first are 10xxxxxx.
  while (start > 0 && (static_cast<unsigned char>(text[start]) >> 6) == 2) {
    --start;
  }
  return start;
}

absl::Status Visit(
    absl::string_view document,
    const std::function<absl::Status(const CorpusText&)>& visit) {
  if (document.empty()) return absl::OkStatus();
  CorpusText text;
  text.first = document;
  return visit(text);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TextCorpus>> TextCorpus::Open(
    const v1::Text& spec, std::function<void(const std::string&)> report) {
  if (spec.train().empty()) {
    return absl::InvalidArgumentError("data.text.train: missing");
  }
  const double fraction = spec.has_validation_fraction()
                              ? spec.validation_fraction()
                              : kDefaultValidationFraction;
  if (!(fraction > 0 && fraction < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.text.validation_fraction: ", fraction,
                     " is not between 0 and 1"));
  }
  if (spec.document_separator().find_first_of("\r\n") != std::string::npos) {
    return absl::InvalidArgumentError(
        "data.text.document_separator: holds a line end");
  }
  if (spec.max_bad_rows() < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.text.max_bad_rows: ", spec.max_bad_rows(), " is below 0"));
  }
  auto corpus = absl::WrapUnique(new TextCorpus(spec.max_bad_rows()));
  corpus->validation_fraction_ = fraction;
  corpus->format_.separator = spec.document_separator();
  if (!spec.field().empty()) corpus->format_.field = spec.field();
  corpus->report_ = std::move(report);
  RETURN_IF_ERROR(corpus->FindFiles(spec));
  RETURN_IF_ERROR(corpus->Stamp());
  if (spec.max_bad_rows() > 0) {
    absl::StrAppend(&corpus->fingerprint_, "bad rows ", spec.max_bad_rows(),
                    "\n");
  }
  return corpus;
}

absl::Status TextCorpus::FindFiles(const v1::Text& spec) {
  struct List {
    const char* field;
    const FileNames& names;
    std::vector<std::string>* files;
  };
  absl::flat_hash_map<std::string, const char*> fields;
  for (const List& list : {List{"train", spec.train(), &train_},
                           List{"validation", spec.validation(), &validation_},
                           List{"test", spec.test(), &test_}}) {
    ASSIGN_OR_RETURN(*list.files, ListFiles(list.field, list.names));
    for (const std::string& file : *list.files) {
      const auto [at, is_new] = fields.emplace(file, list.field);
      if (!is_new) {
        return absl::InvalidArgumentError(
            absl::StrCat("data.text.", list.field, ": ", PrintablePath(file),
                         " is also one of data.text.", at->second));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status TextCorpus::Stamp() {
  fingerprint_ = "text 1\n";
  const std::pair<const char*, const std::vector<std::string>*> lists[] = {
      {"train", &train_}, {"validation", &validation_}, {"test", &test_}};
  for (const auto& [field, files] : lists) {
    absl::StrAppend(&fingerprint_, field, "\n");
    for (const std::string& file : *files) {
      const absl::StatusOr<std::string> stamp = FileStamp(file);
      if (!stamp.ok()) return InField(field, stamp.status());
      absl::StrAppend(&fingerprint_, *stamp, "\n");
    }
  }
  absl::StrAppend(&fingerprint_,
                  validation_.empty() ? validation_fraction_ : 0.0, "\n",
                  format_.separator.size(), " ", format_.separator, "\n");
  const auto has_rows = [](const std::vector<std::string>& files) {
    return std::any_of(files.begin(), files.end(), [](const std::string& file) {
      return DocumentFile::KindOf(file) != DocumentFile::Kind::kPlain;
    });
  };
  if (has_rows(train_) || has_rows(validation_) || has_rows(test_)) {
    absl::StrAppend(&fingerprint_, "rows 1\n", format_.field.size(), " ",
                    format_.field, "\n");
  }
  return absl::OkStatus();
}

void TextCorpus::ReportSkipped() const {
  if (bad_rows_.count() == reported_bad_rows_) return;
  reported_bad_rows_ = bad_rows_.count();
  LOG(WARNING) << "event=rows_skipped count=" << reported_bad_rows_;
  if (report_) report_(bad_rows_.Summary());
}

absl::StatusOr<int64_t> TextCorpus::CountDocuments() const {
  if (documents_) return *documents_;
  DocumentReader reader(train_, format_, &bad_rows_);
  std::string document;
  int64_t count = 0;
  while (true) {
    if (report_ && count % kReportEvery == 0) {
      report_(absl::StrCat("counting documents, ", count));
    }
    ASSIGN_OR_RETURN(const bool more, reader.Next(&document));
    if (!more) break;
    ++count;
  }
  ReportSkipped();
  documents_ = count;
  return count;
}

absl::Status TextCorpus::ReadSplit(
    bool held_out,
    const std::function<absl::Status(const CorpusText&)>& visit) const {
  ASSIGN_OR_RETURN(const int64_t documents, CountDocuments());
  // Each part gets at least one of two documents or more.
  const int64_t held = std::clamp<int64_t>(
      std::llround(validation_fraction_ * static_cast<double>(documents)), 1,
      std::max<int64_t>(documents - 1, 1));
  DocumentReader reader(train_, format_, &bad_rows_);
  std::string document;
  for (int64_t i = 0;; ++i) {
    if (!held_out && documents > 1 && i == documents - held) break;
    ASSIGN_OR_RETURN(const bool more, reader.Next(&document));
    if (!more) break;
    if (documents == 1) {
      const absl::string_view text = document;
      const size_t start = HeldOutStart(text, validation_fraction_);
      RETURN_IF_ERROR(
          Visit(held_out ? text.substr(start) : text.substr(0, start), visit));
    } else if (!held_out || i >= documents - held) {
      RETURN_IF_ERROR(Visit(document, visit));
    }
  }
  return absl::OkStatus();
}

absl::Status TextCorpus::Read(
    Part part,
    const std::function<absl::Status(const CorpusText&)>& visit) const {
  if (part != Part::kTest && validation_.empty()) {
    return ReadSplit(part == Part::kValidation, visit);
  }
  DocumentReader reader(files(part), format_, &bad_rows_);
  std::string document;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next(&document));
    if (!more) break;
    RETURN_IF_ERROR(Visit(document, visit));
  }
  ReportSkipped();
  return absl::OkStatus();
}

}  // namespace comera::trainer
