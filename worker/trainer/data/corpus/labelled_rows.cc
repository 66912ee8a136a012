// Reads labelled texts from CSV, TSV and lines of JSON.
#include "worker/trainer/data/corpus/labelled_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "worker/trainer/data/corpus/json_fields.h"
#include "worker/trainer/data/source/csv_reader.h"
#include "worker/trainer/data/source/line_reader.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

// Where the columns of a header line stand.
struct Columns {
  size_t width = 0, text = 0, label = 0;
  // `width` without a second text.
  size_t second_text = 0;
};

absl::StatusOr<size_t> FindColumn(const char* field, const std::string& name,
                                  const std::vector<std::string>& header,
                                  const std::string& path) {
  const auto found = std::find(header.begin(), header.end(), name);
  const char* problem = nullptr;
  if (found == header.end()) {
    problem = "has no column";
  } else if (std::find(found + 1, header.end(), name) != header.end()) {
    problem = "has twice the column";
  }
  if (problem == nullptr) return static_cast<size_t>(found - header.begin());
  return absl::InvalidArgumentError(
      absl::StrCat("data.labelled_text.", field, ": ", Place(path, 1), " ",
                   problem, " '", Printable(name), "'"));
}

absl::StatusOr<Columns> FindColumns(const v1::LabelledText& spec,
                                    const std::vector<std::string>& header,
                                    const std::string& path) {
  Columns columns;
  columns.width = columns.second_text = header.size();
  ASSIGN_OR_RETURN(columns.text, FindColumn("text", spec.text(), header, path));
  if (!spec.second_text().empty()) {
    ASSIGN_OR_RETURN(
        columns.second_text,
        FindColumn("second_text", spec.second_text(), header, path));
  }
  ASSIGN_OR_RETURN(columns.label,
                   FindColumn("label", spec.label(), header, path));
  return columns;
}

// Lines of cells without quoting, with the interface of CsvReader.
class TsvReader {
 public:
  static absl::StatusOr<std::unique_ptr<TsvReader>> Open(
      const std::string& path) {
    ASSIGN_OR_RETURN(std::unique_ptr<LineReader> lines, LineReader::Open(path));
    return std::make_unique<TsvReader>(std::move(lines));
  }
  explicit TsvReader(std::unique_ptr<LineReader> lines)
      : lines_(std::move(lines)) {}

  absl::StatusOr<bool> Next(std::vector<std::string>* fields) {
    absl::string_view line;
    do {
      ASSIGN_OR_RETURN(const bool more, lines_->Next(&line));
      if (!more) return false;
      if (lines_->line_number() == 1) {
        absl::ConsumePrefix(&line, "\xEF\xBB\xBF");
      }
    } while (line.empty());
    *fields = absl::StrSplit(line, '\t');
    return true;
  }
  absl::Status Error(absl::string_view what) const {
    return lines_->Error(what);
  }

 private:
  const std::unique_ptr<LineReader> lines_;
};

// Rows of a file whose header line names its columns.
template <typename Reader>
class TableRows : public LabelledRows {
 public:
  static absl::StatusOr<std::unique_ptr<LabelledRows>> Open(
      const v1::LabelledText& spec, const std::string& path) {
    ASSIGN_OR_RETURN(std::unique_ptr<Reader> reader, Reader::Open(path));
    std::vector<std::string> header;
    ASSIGN_OR_RETURN(const bool more, reader->Next(&header));
    if (!more) {
      return absl::DataLossError(absl::StrCat(
          Place(path, 1), ": empty file, a header line is needed"));
    }
    ASSIGN_OR_RETURN(const Columns columns, FindColumns(spec, header, path));
    return std::make_unique<TableRows>(spec, columns, std::move(reader));
  }
  TableRows(const v1::LabelledText& spec, const Columns& columns,
            std::unique_ptr<Reader> reader)
      : label_(spec.label()), columns_(columns), reader_(std::move(reader)) {}

  absl::StatusOr<bool> Next(LabelledRow* row) override {
    ASSIGN_OR_RETURN(const bool more, reader_->Next(&cells_));
    if (!more) return false;
    if (cells_.size() != columns_.width) {
      return Error(absl::StrCat(cells_.size(), " columns, but the header has ",
                                columns_.width));
    }
    row->text = std::move(cells_[columns_.text]);
    row->second_text.clear();
    if (columns_.second_text < columns_.width) {
      row->second_text = std::move(cells_[columns_.second_text]);
    }
    row->label = std::move(cells_[columns_.label]);
    if (!row->label.empty()) return true;
    return Error(absl::StrCat("column '", Printable(label_), "': empty"));
  }
  absl::Status Error(absl::string_view what) const override {
    return reader_->Error(what);
  }

 private:
  const std::string label_;
  const Columns columns_;
  const std::unique_ptr<Reader> reader_;
  std::vector<std::string> cells_;
};

class JsonRows : public LabelledRows {
 public:
  static absl::StatusOr<std::unique_ptr<LabelledRows>> Open(
      const v1::LabelledText& spec, const std::string& path) {
    ASSIGN_OR_RETURN(std::unique_ptr<LineReader> lines, LineReader::Open(path));
    return std::make_unique<JsonRows>(spec, std::move(lines));
  }
  JsonRows(const v1::LabelledText& spec, std::unique_ptr<LineReader> lines)
      : fields_({spec.text(), spec.label()}), lines_(std::move(lines)) {
    if (!spec.second_text().empty()) fields_.push_back(spec.second_text());
  }

  absl::StatusOr<bool> Next(LabelledRow* row) override {
    absl::string_view line;
    do {
      ASSIGN_OR_RETURN(const bool more, lines_->Next(&line));
      if (!more) return false;
    } while (line.empty());
    const absl::Status parsed =
        ReadJsonFields(line, fields_, &values_, /*scalar_field=*/fields_[1]);
    if (!parsed.ok()) return Error(parsed.message());
    row->text = std::move(values_[0]);
    row->label = std::move(values_[1]);
    row->second_text = fields_.size() > 2 ? std::move(values_[2]) : "";
    if (!row->label.empty()) return true;
    return Error(absl::StrCat("field '", Printable(fields_[1]), "': empty"));
  }
  absl::Status Error(absl::string_view what) const override {
    return lines_->Error(what);
  }

 private:
  std::vector<std::string> fields_;
  std::vector<std::string> values_;
  const std::unique_ptr<LineReader> lines_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LabelledRows>> LabelledRows::Open(
    const v1::LabelledText& spec, const std::string& path) {
  absl::string_view name = path;
  absl::ConsumeSuffix(&name, ".gz");
  if (absl::EndsWith(name, ".csv")) {
    return TableRows<CsvReader>::Open(spec, path);
  }
  if (absl::EndsWith(name, ".tsv")) {
    return TableRows<TsvReader>::Open(spec, path);
  }
  if (absl::EndsWith(name, ".jsonl")) return JsonRows::Open(spec, path);
  return absl::InvalidArgumentError(
      absl::StrCat("data.labelled_text: ", PrintablePath(path),
                   " ends with none of .csv, .tsv and .jsonl"));
}

}  // namespace comera::trainer
