// Reads click logs in Criteo's tab-separated format.
#include "worker/trainer/data/clicks/criteo_tsv.h"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "worker/trainer/data/clicks/category_dictionary.h"
#include "worker/trainer/data/clicks/criteo_cells.h"
#include "worker/trainer/data/source/line_reader.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

constexpr int kColumns = 1 + kCriteoIntegers + kCriteoCategories;
constexpr size_t kMaxLineBytes = 4096;
constexpr int64_t kMaxRows = int64_t{1} << 28;
constexpr int64_t kMaxTableRows = int64_t{1} << 24;
constexpr int64_t kMaxValues = int64_t{1}
                               << 28;  // in one column, whatever the limit
constexpr int64_t kReportRows = 500000;

using Cells = std::array<absl::string_view, kColumns>;

absl::Status CellError(const LineReader& reader, int column,
                       absl::string_view expected) {
  return reader.Error(
      absl::StrCat("column ", column + 1, ": expected ", expected));
}

absl::Status SplitLine(const LineReader& reader, absl::string_view line,
                       Cells* cells) {
  int columns = 0;
  while (true) {
    const size_t tab = line.find('\t');
    if (columns < kColumns) (*cells)[columns] = line.substr(0, tab);
    ++columns;
    if (tab == absl::string_view::npos) break;
    line.remove_prefix(tab + 1);
  }
  if (columns == kColumns) return absl::OkStatus();
  return reader.Error(absl::StrCat(
      columns, " columns, not ", kColumns, ": a label, ", kCriteoIntegers,
      " integers and ", kCriteoCategories, " categories, separated by tabs"));
}

// Reads files one after the other into one table.
class CriteoReader {
 public:
  CriteoReader() : dictionaries_(kCriteoCategories) {}

  absl::Status ReadFile(
      const std::string& path,
      const std::function<void(const std::string&)>& on_activity) {
    ASSIGN_OR_RETURN(const std::unique_ptr<LineReader> reader,
                     LineReader::Open(path, kMaxLineBytes));
    absl::string_view line;
    while (true) {
      ASSIGN_OR_RETURN(const bool more, reader->Next(&line));
      if (!more) return absl::OkStatus();
      if (table_.size() == kMaxRows) {
        return absl::ResourceExhaustedError(
            absl::StrCat(Place(path, reader->line_number()), ": more than ",
                         kMaxRows, " rows"));
      }
      RETURN_IF_ERROR(AddRow(*reader, line));
      if (on_activity && table_.size() % kReportRows == 0) {
        on_activity(absl::StrCat("reading clicks, ", table_.size(), " rows"));
      }
    }
  }

  absl::StatusOr<ClickTable> Finish(int64_t parts, int64_t max_table_rows) {
    for (int c = 0; c < kCriteoCategories; ++c) {
      const CategoryDictionary& dictionary = dictionaries_[c];
      const int64_t rows = dictionary.Rows(max_table_rows);
      if (rows > kMaxTableRows) {
        return absl::ResourceExhaustedError(absl::StrCat(
            "data.criteo_tsv: categorical column ", c + 1, " has ", rows,
            " values, above ", kMaxTableRows, "; max_table_rows limits them"));
      }
      table_.SetTable(c, rows, dictionary.RowsOfNumbers(max_table_rows));
      table_.SetOwnValues(c, dictionary.OwnValues(max_table_rows));
    }
    if (!table_.Split(parts)) {
      return absl::DataLossError(
          absl::StrCat("data.criteo_tsv.files: ", table_.size(),
                       " rows are too few for ", parts, " parts"));
    }
    return std::move(table_);
  }

 private:
  absl::Status AddRow(const LineReader& reader, absl::string_view line) {
    Cells cells;
    RETURN_IF_ERROR(SplitLine(reader, line, &cells));
    if (cells[0] != "0" && cells[0] != "1") {
      return CellError(reader, 0, "a label, 0 or 1");
    }
    std::array<float, kCriteoIntegers> dense;
    for (int i = 0; i < kCriteoIntegers; ++i) {
      int64_t value = 0;
      if (!ParseCriteoInteger(cells[1 + i], &value)) {
        return CellError(reader, 1 + i, "an integer or nothing");
      }
      dense[i] = CriteoNumber(static_cast<double>(value));
    }
    std::array<int32_t, kCriteoCategories> categories;
    for (int c = 0; c < kCriteoCategories; ++c) {
      const int column = 1 + kCriteoIntegers + c;
      uint64_t value = 0;
      if (!ParseCriteoCategory(cells[column], &value)) {
        return CellError(
            reader, column,
            absl::StrCat("at most ", kCriteoDigits, " hexadecimal digits"));
      }
      if (dictionaries_[c].size() == kMaxValues) {
        return absl::ResourceExhaustedError(
            absl::StrCat("data.criteo_tsv: categorical column ", c + 1,
                         " has more than ", kMaxValues, " values"));
      }
      categories[c] = dictionaries_[c].Add(value);
    }
    table_.Add(cells[0] == "1" ? 1 : 0, dense.data(), categories.data());
    return absl::OkStatus();
  }

  std::vector<CategoryDictionary> dictionaries_;
  ClickTable table_{kCriteoIntegers, kCriteoCategories};
};

}  // namespace

absl::StatusOr<ClickTable> ReadCriteoTsv(
    const v1::CriteoTsv& spec,
    const std::function<void(const std::string&)>& on_activity) {
  if (spec.files().empty()) {
    return absl::InvalidArgumentError("data.criteo_tsv.files: missing");
  }
  if (spec.parts() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.criteo_tsv.parts: ", spec.parts(), " is not at least 2"));
  }
  if (spec.max_table_rows() < 0 || spec.max_table_rows() == 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.criteo_tsv.max_table_rows: ", spec.max_table_rows(),
                     " is neither 0 nor at least 2"));
  }
  CriteoReader reader;
  for (const std::string& path : spec.files()) {
    RETURN_IF_ERROR(reader.ReadFile(path, on_activity));
  }
  return reader.Finish(spec.parts(), spec.max_table_rows());
}

}  // namespace comera::trainer
