// Reads the tab-separated files of GLUE tasks.
#include "worker/trainer/data/corpus/glue_tsv_corpus.h"

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/line_reader.h"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

constexpr int32_t kSentence1 = 8;  // MNLI's columns
constexpr int32_t kSentence2 = 9;
constexpr int32_t kLabel = -1;
constexpr int32_t kMaxClasses = 1000;

// Index of a column of a file with `columns` columns.
absl::StatusOr<size_t> Column(const char* field, int32_t column, size_t columns,
                              const std::string& path) {
  const int64_t index =
      column < 0 ? static_cast<int64_t>(columns) + column : column;
  if (index < 0 || index >= static_cast<int64_t>(columns)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.glue_tsv.", field, ": ", column, ", but ",
                     Place(path, 1), " has ", columns, " columns"));
  }
  return static_cast<size_t>(index);
}

struct Columns {
  size_t sentence1, label;
  std::optional<size_t> sentence2;
};

bool HasPairs(const v1::GlueTsv& spec) {
  return !spec.has_sentence2_column() || spec.sentence2_column() >= 0;
}

absl::StatusOr<Columns> FindColumns(const v1::GlueTsv& spec, size_t width,
                                    const std::string& path) {
  Columns columns;
  ASSIGN_OR_RETURN(
      columns.sentence1,
      Column("sentence1_column",
             spec.has_sentence1_column() ? spec.sentence1_column() : kSentence1,
             width, path));
  if (HasPairs(spec)) {
    ASSIGN_OR_RETURN(columns.sentence2, Column("sentence2_column",
                                               spec.has_sentence2_column()
                                                   ? spec.sentence2_column()
                                                   : kSentence2,
                                               width, path));
  }
  ASSIGN_OR_RETURN(
      columns.label,
      Column("label_column",
             spec.has_label_column() ? spec.label_column() : kLabel, width,
             path));
  return columns;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GlueTsvCorpus>> GlueTsvCorpus::Open(
    const v1::GlueTsv& spec, int32_t max_classes) {
  if (spec.train().empty()) {
    return absl::InvalidArgumentError("data.glue_tsv.train: missing");
  }
  if (spec.validation().empty()) {
    return absl::InvalidArgumentError("data.glue_tsv.validation: missing");
  }
  auto corpus = absl::WrapUnique(new GlueTsvCorpus(spec));
  ASSIGN_OR_RETURN(const std::string train, FileStamp(spec.train()));
  ASSIGN_OR_RETURN(const std::string validation, FileStamp(spec.validation()));
  corpus->fingerprint_ = absl::StrCat(
      "glue tsv 1\n", train, "\n", validation, "\n", spec.sentence1_column(),
      " ", spec.sentence2_column(), " ", spec.label_column(), " ");
  absl::StrAppend(&corpus->fingerprint_, spec.has_sentence1_column(),
                  spec.has_sentence2_column(), spec.has_label_column(), "\n");
  if (corpus->has_test()) {
    ASSIGN_OR_RETURN(const std::string test, FileStamp(spec.test()));
    absl::StrAppend(&corpus->fingerprint_, "test ", test, "\n");
  }
  RETURN_IF_ERROR(
      corpus->FindLabels(max_classes > 0 ? max_classes : kMaxClasses));
  RETURN_IF_ERROR(corpus->ReadHeader());
  return corpus;
}

absl::Status GlueTsvCorpus::FindLabels(int32_t max_classes) {
  std::vector<std::string> labels(spec_.labels().begin(), spec_.labels().end());
  if (static_cast<int64_t>(labels.size()) > max_classes) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.glue_tsv.labels: ", labels.size(),
                     " labels, but model.classes is ", max_classes));
  }
  if (labels.empty()) {
    std::set<std::string, std::less<>> found;
    RETURN_IF_ERROR(ReadRows(spec_.train(), [&](const Row& row) {
      if (row.label.empty()) {
        return (*row.error)(absl::StrCat("column ", row.label_column,
                                         ": expected a label, it is empty"));
      }
      if (found.find(row.label) == found.end()) {
        if (static_cast<int64_t>(found.size()) == max_classes) {
          return (*row.error)(absl::StrCat(
              "column ", row.label_column, ": expected one of the ",
              max_classes, " labels of the rows above"));
        }
        found.emplace(row.label);
      }
      return absl::OkStatus();
    }));
    labels.assign(found.begin(), found.end());
  }
  for (const std::string& label : labels) {
    const int32_t next = static_cast<int32_t>(classes_.size());
    if (!classes_.emplace(label, next).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "data.glue_tsv.labels: '", Printable(label), "' occurs twice"));
    }
    absl::StrAppend(&fingerprint_, label.size(), " ", label, "\n");
  }
  return absl::OkStatus();
}

// The names of the columns, and the classes, for whoever uses the model.
absl::Status GlueTsvCorpus::ReadHeader() {
  ASSIGN_OR_RETURN(const std::unique_ptr<LineReader> reader,
                   LineReader::Open(spec_.train()));
  absl::string_view line;
  ASSIGN_OR_RETURN(const bool more, reader->Next(&line));
  if (!more) return reader->Error("empty file, a header line is needed");
  const std::vector<std::string> cells = absl::StrSplit(line, '\t');
  ASSIGN_OR_RETURN(const Columns columns,
                   FindColumns(spec_, cells.size(), spec_.train()));
  format_.fields = {cells[columns.sentence1]};
  if (columns.sentence2.has_value()) {
    format_.fields.push_back(cells[*columns.sentence2]);
  }
  format_.label_field = cells[columns.label];
  format_.labels.resize(classes_.size());
  for (const auto& [label, index] : classes_) format_.labels[index] = label;
  return absl::OkStatus();
}

absl::Status GlueTsvCorpus::ReadRows(
    const std::string& path,
    const std::function<absl::Status(const Row&)>& visit) const {
  ASSIGN_OR_RETURN(const std::unique_ptr<LineReader> reader,
                   LineReader::Open(path));
  const std::function<absl::Status(absl::string_view)> error =
      [&reader](absl::string_view what) { return reader->Error(what); };
  absl::string_view line;
  ASSIGN_OR_RETURN(bool more, reader->Next(&line));
  if (!more) return reader->Error("empty file, a header line is needed");
  std::vector<absl::string_view> cells = absl::StrSplit(line, '\t');
  const size_t width = cells.size();
  ASSIGN_OR_RETURN(const Columns columns, FindColumns(spec_, width, path));
  while (true) {
    ASSIGN_OR_RETURN(more, reader->Next(&line));
    if (!more) return absl::OkStatus();
    cells = absl::StrSplit(line, '\t');
    if (cells.size() != width) {
      return reader->Error(
          absl::StrCat(cells.size(), " columns, but the header has ", width));
    }
    Row row;
    row.sentence1 = cells[columns.sentence1];
    if (columns.sentence2.has_value()) {
      row.sentence2 = cells[*columns.sentence2];
    }
    row.label = cells[columns.label];
    row.label_column = columns.label + 1;
    row.error = &error;
    RETURN_IF_ERROR(visit(row));
  }
}

absl::Status GlueTsvCorpus::Read(
    Part part,
    const std::function<absl::Status(const CorpusText&)>& visit) const {
  const std::string& path = part == Part::kTrain        ? spec_.train()
                            : part == Part::kValidation ? spec_.validation()
                                                        : spec_.test();
  const bool pairs = HasPairs(spec_);
  return ReadRows(path, [&](const Row& row) {
    const auto found = classes_.find(row.label);
    if (found == classes_.end()) {
      return (*row.error)(absl::StrCat("column ", row.label_column,
                                       ": expected one of the ",
                                       classes_.size(), " known labels"));
    }
    CorpusText text;
    text.first = row.sentence1;
    text.second = row.sentence2;
    text.is_pair = pairs;
    text.is_single = !pairs;
    text.label = found->second;
    return visit(text);
  });
}

}  // namespace comera::trainer
