// Splits lines of CSV into fields.
#include "worker/trainer/data/source/csv_reader.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {

absl::StatusOr<std::unique_ptr<CsvReader>> CsvReader::Open(
    const std::string& path, size_t max_record_bytes) {
  ASSIGN_OR_RETURN(std::unique_ptr<LineReader> lines,
                   LineReader::Open(path, max_record_bytes));
  return std::make_unique<CsvReader>(std::move(lines), path, max_record_bytes);
}

absl::Status CsvReader::Error(absl::string_view what) const {
  return absl::DataLossError(
      absl::StrCat(Place(path_, record_line_), ": ", what));
}

absl::Status CsvReader::ReadQuoted(size_t column, absl::string_view* line,
                                   std::string* field) {
  while (true) {
    const size_t quote = line->find('"');
    if (field->size() + line->size() > max_record_bytes_) {
      return Error(absl::StrCat("column ", column, ": longer than ",
                                max_record_bytes_, " bytes"));
    }
    if (quote == absl::string_view::npos) {
      absl::StrAppend(field, *line, "\n");
      ASSIGN_OR_RETURN(const bool more, lines_->Next(line));
      if (!more) {
        return Error(
            absl::StrCat("column ", column, ": its quote is never closed"));
      }
      continue;
    }
    absl::StrAppend(field, line->substr(0, quote));
    line->remove_prefix(quote + 1);
    if (!absl::ConsumePrefix(line, "\"")) return absl::OkStatus();
    field->push_back('"');
  }
}

absl::StatusOr<bool> CsvReader::Next(std::vector<std::string>* fields) {
  absl::string_view line;
  do {
    ASSIGN_OR_RETURN(const bool more, lines_->Next(&line));
    if (!more) return false;
    record_line_ = lines_->line_number();
    // Some programs mark their files as UTF-8.
    if (record_line_ == 1) absl::ConsumePrefix(&line, "\xEF\xBB\xBF");
  } while (line.empty());
  fields->clear();
  size_t bytes = 0;
  while (true) {
    const size_t column = fields->size() + 1;
    if (column > kMaxFields) {
      return Error(absl::StrCat("more than ", kMaxFields, " columns"));
    }
    std::string& field = fields->emplace_back();
    if (absl::ConsumePrefix(&line, "\"")) {
      in_quotes_ = true;
      RETURN_IF_ERROR(ReadQuoted(column, &line, &field));
      in_quotes_ = false;
      if (!line.empty() && line.front() != ',') {
        return Error(absl::StrCat("column ", column,
                                  ": something follows its closing quote"));
      }
    } else {
      field = std::string(line.substr(0, line.find(',')));
      line.remove_prefix(field.size());
      if (field.find('"') != std::string::npos) {
        return Error(absl::StrCat("column ", column,
                                  ": a quote in a field that is not quoted"));
      }
    }
    bytes += field.size() + 1;
    if (bytes > max_record_bytes_) {
      return Error(absl::StrCat("the record is longer than ", max_record_bytes_,
                                " bytes"));
    }
    if (!absl::ConsumePrefix(&line, ",")) return true;
  }
}

}  // namespace comera::trainer
