// Finds columns and labels of a file of labelled texts.
#include "client/search/labelled_file.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/predict/line_source.h"
#include "common/json.h"
#include "common/status_macros.h"

namespace comera::client {
namespace {

// More different labels than this are no classes.
constexpr size_t kMaxLabels = 1000;

constexpr const char* kTexts[] = {"text",    "sentence",  "sentence1",
                                  "premise", "question1", "content",
                                  "review",  "body"};
constexpr const char* kSecondTexts[] = {"second_text", "text_pair", "sentence2",
                                        "hypothesis", "question2"};
constexpr const char* kLabels[] = {"label",  "labels",    "class",
                                   "target", "sentiment", "category"};

// What some programs write before UTF-8 text.
constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::string PlainName(const std::string& path) {
  return std::string(absl::StripSuffix(path, ".gz"));
}

// The cells of one row of CSV, which may span lines.
class CsvRows {
 public:
  explicit CsvRows(LineSource* source) : source_(source) {}

  // False at the end.
  absl::StatusOr<bool> Next(std::vector<std::string>* cells) {
    cells->clear();
    absl::string_view line;
    ASSIGN_OR_RETURN(bool more, source_->Next(&line));
    if (!more) return false;
    if (std::exchange(first_, false))
      absl::ConsumePrefix(&line, kByteOrderMark);
    std::string cell;
    bool quoted = false;
    while (true) {
      for (size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        if (quoted) {
          if (c != '"') {
            cell += c;
          } else if (i + 1 < line.size() && line[i + 1] == '"') {
            cell += line[++i];
          } else {
            quoted = false;
          }
        } else if (c == '"' && cell.empty()) {
          quoted = true;
        } else if (c == ',') {
          cells->push_back(std::move(cell));
          cell.clear();
        } else {
          cell += c;
        }
      }
      if (!quoted) break;
      ASSIGN_OR_RETURN(more, source_->Next(&line));
      if (!more) return source_->Error("a quoted cell does not end");
      cell += '\n';
    }
    cells->push_back(std::move(cell));
    return true;
  }

 private:
  LineSource* const source_;
  bool first_ = true;
};

template <typename Names>
std::string Guess(const Names& names, const std::vector<std::string>& header) {
  for (const char* name : names) {
    if (std::find(header.begin(), header.end(), name) != header.end()) {
      return name;
    }
  }
  return "";
}

// Fills in the columns that the user left out.
absl::Status FindColumns(const std::string& path,
                         const LabelledColumns& columns,
                         const std::vector<std::string>& header,
                         LabelledFile* file) {
  const auto has = [&](const std::string& name) {
    return std::find(header.begin(), header.end(), name) != header.end();
  };
  file->text = columns.text.empty() ? Guess(kTexts, header) : columns.text;
  file->label = columns.label.empty() ? Guess(kLabels, header) : columns.label;
  file->second_text = columns.second_text;
  if (file->second_text.empty() && columns.text.empty()) {
    file->second_text = Guess(kSecondTexts, header);
  }
  // The text is that of two columns which is not the label.
  if (file->text.empty() && header.size() == 2 && has(file->label)) {
    file->text = header[0] == file->label ? header[1] : header[0];
  }
  const std::string there =
      absl::StrCat("it has ", absl::StrJoin(header, ", "));
  if (file->text.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": which column holds the text? Name it with --text (", there,
        ")"));
  }
  for (const std::string& name : {file->text, file->second_text, file->label}) {
    if (name.empty() || has(name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": there is no column ", name, " (", there, ")"));
  }
  return absl::OkStatus();
}

// Collects the different labels of a file.
class Labels {
 public:
  explicit Labels(std::string path) : path_(std::move(path)) {}

  absl::Status Add(const std::string& label, const LineSource& source) {
    if (label.empty()) return source.Error("the row has no label");
    labels_.insert(label);
    if (labels_.size() <= kMaxLabels) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        path_, ": there are more than ", kMaxLabels,
        " different labels: name the column of classes with --label"));
  }
  std::vector<std::string> Sorted() const {
    return {labels_.begin(), labels_.end()};
  }

 private:
  const std::string path_;
  std::set<std::string> labels_;
};

absl::StatusOr<LabelledFile> SurveyTable(const std::string& path, bool csv,
                                         const LabelledColumns& columns) {
  ASSIGN_OR_RETURN(const std::unique_ptr<LineSource> source,
                   LineSource::Open(path));
  CsvRows rows(source.get());
  bool first = true;
  const auto next =
      [&](std::vector<std::string>* cells) -> absl::StatusOr<bool> {
    if (csv) return rows.Next(cells);
    absl::string_view line;
    ASSIGN_OR_RETURN(const bool more, source->Next(&line));
    if (std::exchange(first, false)) absl::ConsumePrefix(&line, kByteOrderMark);
    if (more) *cells = absl::StrSplit(line, '\t');
    return more;
  };
  std::vector<std::string> header, cells;
  ASSIGN_OR_RETURN(bool more, next(&header));
  if (!more) return absl::InvalidArgumentError(path + ": is empty");
  LabelledFile file;
  RETURN_IF_ERROR(FindColumns(path, columns, header, &file));
  if (file.label.empty()) return file;
  const auto column = static_cast<size_t>(
      std::find(header.begin(), header.end(), file.label) - header.begin());
  Labels labels(path);
  while (true) {
    ASSIGN_OR_RETURN(more, next(&cells));
    if (!more) break;
    if (cells.size() == 1 && cells[0].empty()) continue;
    if (cells.size() != header.size()) {
      return source->Error(absl::StrCat("the row has ", cells.size(),
                                        " cells, the header ", header.size()));
    }
    RETURN_IF_ERROR(labels.Add(cells[column], *source));
  }
  file.labels = labels.Sorted();
  return file;
}

// The label as the trainer reads it. It takes a fraction as it is spelled in
// the line, which is not known here any more.
absl::StatusOr<std::string> LabelOf(const nlohmann::json& value,
                                    const LineSource& source) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean() || value.is_number_integer()) return JsonText(value);
  return source.Error(
      "the label is neither a text, a whole number nor true or false");
}

absl::StatusOr<LabelledFile> SurveyJsonLines(const std::string& path,
                                             const LabelledColumns& columns) {
  ASSIGN_OR_RETURN(const std::unique_ptr<LineSource> source,
                   LineSource::Open(path));
  std::optional<LabelledFile> file;
  Labels labels(path);
  absl::string_view line;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, source->Next(&line));
    if (!more) break;
    if (line.empty()) continue;
    const nlohmann::json row = ParseJson(line);
    if (!row.is_object()) return source->Error("is no JSON object");
    if (!file) {
      std::vector<std::string> fields;
      for (const auto& item : row.items()) fields.push_back(item.key());
      file.emplace();
      RETURN_IF_ERROR(FindColumns(path, columns, fields, &*file));
      if (file->label.empty()) return *file;
    }
    const auto label = row.find(file->label);
    if (label == row.end()) {
      return source->Error(absl::StrCat("there is no field ", file->label));
    }
    ASSIGN_OR_RETURN(const std::string text, LabelOf(*label, *source));
    RETURN_IF_ERROR(labels.Add(text, *source));
  }
  if (!file) return absl::InvalidArgumentError(path + ": is empty");
  file->labels = labels.Sorted();
  return *file;
}

}  // namespace

bool IsLabelledFileName(const std::string& path) {
  const std::string name = PlainName(path);
  return absl::EndsWith(name, ".csv") || absl::EndsWith(name, ".tsv") ||
         absl::EndsWith(name, ".jsonl");
}

absl::StatusOr<LabelledFile> SurveyLabelledFile(
    const std::string& path, const LabelledColumns& columns) {
  const std::string name = PlainName(path);
  if (absl::EndsWith(name, ".jsonl")) return SurveyJsonLines(path, columns);
  return SurveyTable(path, absl::EndsWith(name, ".csv"), columns);
}

}  // namespace comera::client
