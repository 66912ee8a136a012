// Parses rows of TSV, JSON lines, text and Criteo logs for a model.

#include "client/predict/row_reader.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/json.h"
#include "common/status_macros.h"

namespace comera::client {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 64;
constexpr size_t kMaxColumns = 4096;
constexpr char kLabel[] = "label";

std::vector<std::string> FieldsOf(const v1::ServedModel& model) {
  return {model.fields().begin(), model.fields().end()};
}

// Shortens a cell or name for an error message.
std::string Short(const std::string& text) {
  constexpr size_t kMost = 60;
  std::string shown = text.substr(0, kMost);
  for (char& c : shown) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  return shown;
}

// Parses an object; null if the line is not one or nests too deeply.
Json ParseObject(absl::string_view line) {
  Json json = ParseJson(line, kMaxDepth);
  return json.is_object() ? json : Json();
}

// Gets the text of a string or number.
bool TextOf(const Json& value, std::string* text) {
  if (value.is_string()) {
    *text = value.get<std::string>();
  } else if (value.is_number_integer()) {
    *text = JsonText(value);
  } else {
    return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowReader>> RowReader::Create(
    std::unique_ptr<LineSource> source, const v1::ServedModel& model,
    const Options& options) {
  const bool clicks = model.family() == "dlrm";
  // The model may be another machine's, which can say anything.
  if (model.numbers() < 0 || model.categories() < 0) {
    return absl::InvalidArgumentError(
        "the model says that its rows have fewer than no columns");
  }
  if (options.format == RowFormat::kCriteo && !clicks) {
    return absl::InvalidArgumentError("criteo: the model takes text");
  }
  if (clicks && options.format != RowFormat::kCriteo &&
      options.format != RowFormat::kJsonl) {
    return absl::InvalidArgumentError(
        "the model takes rows of a click log: criteo or jsonl");
  }
  if (options.columns.size() > 2 && !model.fields_joined()) {
    return absl::InvalidArgumentError(
        "columns: one for the text, or two for a pair");
  }
  if (options.labels && options.format == RowFormat::kText) {
    return absl::InvalidArgumentError("lines of text have no labels");
  }
  auto reader =
      absl::WrapUnique(new RowReader(std::move(source), model, options));
  if (options.format == RowFormat::kTsv) {
    RETURN_IF_ERROR(reader->ReadHeader());
  }
  return reader;
}

absl::StatusOr<int> RowReader::FindColumn(
    const std::string& column, const std::vector<std::string>& header) const {
  const auto found = std::find(header.begin(), header.end(), column);
  if (found != header.end()) return static_cast<int>(found - header.begin());
  int number = 0;
  const bool numeric = absl::SimpleAtoi(column, &number);
  // Without a header the number of columns is known only with the first row.
  if (numeric && options_.no_header) return number;
  const auto width = static_cast<int>(header.size());
  if (numeric && number < width && number >= -width) {
    return number < 0 ? number + width : number;
  }
  return source_->Error(absl::StrCat("no column '", Short(column),
                                     "'; there are ",
                                     Short(absl::StrJoin(header, ", ")),
                                     " (--columns names or numbers them)"));
}

absl::Status RowReader::ReadHeader() {
  std::vector<std::string> header;
  std::vector<std::string> wanted = options_.columns;
  if (!options_.no_header) {
    absl::string_view line;
    ASSIGN_OR_RETURN(const bool more, source_->Next(&line));
    if (!more) return source_->Error("empty, a header line is needed");
    header = absl::StrSplit(line, '\t');
    if (header.size() > kMaxColumns) return source_->Error("too many columns");
    width_ = header.size();
    const auto has = [&](const std::string& name) {
      return std::find(header.begin(), header.end(), name) != header.end();
    };
    if (wanted.empty()) {
      wanted = FieldsOf(model_);
      if (wanted.empty() || !std::all_of(wanted.begin(), wanted.end(), has)) {
        wanted = {"text"};
        if (has("text_pair")) wanted.push_back("text_pair");
      }
    }
  } else if (wanted.empty()) {
    return absl::InvalidArgumentError(
        "without a header line, --columns must number the columns");
  }
  for (const std::string& column : wanted) {
    ASSIGN_OR_RETURN(const int index, FindColumn(column, header));
    columns_.push_back(index);
  }
  if (!options_.labels) return absl::OkStatus();
  std::string label = options_.label_column;
  if (label.empty()) label = model_.label_field();
  if (label.empty()) label = kLabel;
  ASSIGN_OR_RETURN(label_, FindColumn(label, header));
  return absl::OkStatus();
}

void RowReader::PutTexts(std::vector<std::string> texts,
                         v1::PredictRow* row) const {
  if (model_.fields_joined() && texts.size() > 1) {
    row->set_text(absl::StrJoin(texts, "\n"));
    return;
  }
  row->set_text(std::move(texts[0]));
  if (texts.size() > 1) row->set_text_pair(std::move(texts[1]));
}

absl::Status RowReader::ReadTsv(absl::string_view line,
                                v1::PredictRow* row) const {
  const std::vector<absl::string_view> cells = absl::StrSplit(line, '\t');
  if (width_ != 0 && cells.size() != width_) {
    return source_->Error(
        absl::StrCat(cells.size(), " columns, but the header has ", width_));
  }
  const auto width = static_cast<int>(cells.size());
  const auto cell = [&](int index) -> absl::StatusOr<std::string> {
    if (index < 0) index += width;
    if (index >= 0 && index < width) return std::string(cells[index]);
    return source_->Error(absl::StrCat("there are ", width, " columns"));
  };
  std::vector<std::string> texts;
  for (const int column : columns_) {
    ASSIGN_OR_RETURN(texts.emplace_back(), cell(column));
  }
  PutTexts(std::move(texts), row);
  if (!options_.labels) return absl::OkStatus();
  ASSIGN_OR_RETURN(*row->mutable_label(), cell(label_));
  return absl::OkStatus();
}

absl::Status RowReader::ReadJson(absl::string_view line,
                                 v1::PredictRow* row) const {
  const Json json = ParseObject(line);
  if (json.is_null()) return source_->Error("not a JSON object");
  const auto text =
      [&](const std::string& name) -> absl::StatusOr<std::string> {
    const auto found = json.find(name);
    std::string value;
    if (found == json.end() || !TextOf(*found, &value)) {
      return source_->Error(absl::StrCat("no text '", Short(name), "'"));
    }
    return value;
  };
  if (options_.labels) {
    std::string label = options_.label_column;
    if (label.empty()) {
      label = json.contains(kLabel) || model_.label_field().empty()
                  ? kLabel
                  : model_.label_field();
    }
    ASSIGN_OR_RETURN(*row->mutable_label(), text(label));
  }
  if (model_.family() == "dlrm") {
    const Json numbers = json.value("numbers", Json::array());
    const Json categories = json.value("categories", Json::array());
    if (!numbers.is_array() || !categories.is_array()) {
      return source_->Error("numbers and categories must be arrays");
    }
    for (const Json& number : numbers) {
      if (!number.is_number() && !number.is_null()) {
        return source_->Error("numbers: expected numbers or null");
      }
      row->add_numbers(number.is_null() ? 0.0 : number.get<double>());
    }
    for (const Json& category : categories) {
      if (!TextOf(category, row->add_categories())) {
        return source_->Error("categories: expected strings or integers");
      }
    }
    return absl::OkStatus();
  }
  std::vector<std::string> fields = options_.columns;
  const bool plain =
      fields.empty() && (json.contains("text") || model_.fields().empty());
  if (plain) {
    ASSIGN_OR_RETURN(*row->mutable_text(), text("text"));
    if (json.contains("text_pair")) {
      ASSIGN_OR_RETURN(*row->mutable_text_pair(), text("text_pair"));
    }
    return absl::OkStatus();
  }
  if (fields.empty()) fields = FieldsOf(model_);
  std::vector<std::string> texts;
  for (const std::string& field : fields) {
    ASSIGN_OR_RETURN(texts.emplace_back(), text(field));
  }
  PutTexts(std::move(texts), row);
  return absl::OkStatus();
}

absl::Status RowReader::ReadCriteo(absl::string_view line,
                                   v1::PredictRow* row) const {
  const std::vector<absl::string_view> cells = absl::StrSplit(line, '\t');
  const auto columns =
      static_cast<size_t>(model_.numbers()) + model_.categories();
  const bool labelled = cells.size() == columns + 1;
  if (!labelled && (options_.labels || cells.size() != columns)) {
    return source_->Error(absl::StrCat(
        cells.size(), " columns; a row has ",
        options_.labels ? "a label, " : "a label or not, ", model_.numbers(),
        " numbers and ", model_.categories(), " categories"));
  }
  size_t at = 0;
  if (labelled) {
    if (options_.labels) row->set_label(std::string(cells[0]));
    ++at;
  }
  for (int i = 0; i < model_.numbers(); ++i, ++at) {
    double number = 0;
    if (!cells[at].empty() && !absl::SimpleAtod(cells[at], &number)) {
      return source_->Error(absl::StrCat("column ", at + 1, ": '",
                                         Short(std::string(cells[at])),
                                         "' is no number"));
    }
    row->add_numbers(number);
  }
  for (int i = 0; i < model_.categories(); ++i, ++at) {
    row->add_categories(std::string(cells[at]));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> RowReader::Next(v1::PredictRow* row) {
  absl::string_view line;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, source_->Next(&line));
    if (!more) return false;
    // In the other formats, an empty line is a row.
    const bool skips = options_.format == RowFormat::kJsonl ||
                       options_.format == RowFormat::kCriteo;
    if (!skips || !line.empty()) break;
  }
  row->Clear();
  switch (options_.format) {
    case RowFormat::kTsv:
      RETURN_IF_ERROR(ReadTsv(line, row));
      break;
    case RowFormat::kJsonl:
      RETURN_IF_ERROR(ReadJson(line, row));
      break;
    case RowFormat::kText:
      row->set_text(std::string(line));
      break;
    case RowFormat::kCriteo:
      RETURN_IF_ERROR(ReadCriteo(line, row));
      break;
  }
  return true;
}

}  // namespace comera::client
