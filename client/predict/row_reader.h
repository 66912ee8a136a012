#ifndef COMERA_CLIENT_PREDICT_ROW_READER_H_
#define COMERA_CLIENT_PREDICT_ROW_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/predict/line_source.h"
#include "comera/v1/predict_service.pb.h"

namespace comera::client {

enum class RowFormat {
  kTsv,     // a header line, then one row per line
  kJsonl,   // one JSON object per line
  kText,    // each line is one text
  kCriteo,  // optional label, numbers and categories, no header
};

// Reads rows of data for a model, from a file or standard input.
//
// TSV: `columns`, names or numbers (from 0; negative from the end), say which
// hold text and second text; by default those that the model was trained on, or
// "text" and "text_pair". JSON lines: the same with fields, or the arrays
// "numbers" and "categories". For a model trained on joined fields they are
// joined.
//
// Not thread-safe.
class RowReader {
 public:
  struct Options {
    RowFormat format = RowFormat::kJsonl;
    // See above; may be empty.
    std::vector<std::string> columns;
    // Empty means the model's label column, or "label".
    std::string label_column;
    // Whether every row must have a label.
    bool labels = false;
    // Whether a TSV file has no header line, so that columns are numbers.
    bool no_header = false;
  };

  // Reads the header, if there is one. InvalidArgument: a column is missing
  // (with file and line), the format does not fit the model, or the model is
  // impossible.
  static absl::StatusOr<std::unique_ptr<RowReader>> Create(
      std::unique_ptr<LineSource> source, const v1::ServedModel& model,
      const Options& options);

  // Returns false at the end. InvalidArgument, with file and line.
  absl::StatusOr<bool> Next(v1::PredictRow* row);
  bool MayWait() const { return source_->MayWait(); }
  int64_t line_number() const { return source_->line_number(); }

 private:
  RowReader(std::unique_ptr<LineSource> source, const v1::ServedModel& model,
            const Options& options)
      : source_(std::move(source)), model_(model), options_(options) {}
  absl::Status ReadHeader();
  absl::StatusOr<int> FindColumn(const std::string& column,
                                 const std::vector<std::string>& header) const;
  absl::Status ReadTsv(absl::string_view line, v1::PredictRow* row) const;
  absl::Status ReadJson(absl::string_view line, v1::PredictRow* row) const;
  absl::Status ReadCriteo(absl::string_view line, v1::PredictRow* row) const;
  // Joins the texts as the model's fields were joined in training.
  void PutTexts(std::vector<std::string> texts, v1::PredictRow* row) const;

  const std::unique_ptr<LineSource> source_;
  const v1::ServedModel model_;
  const Options options_;
  // Used for TSV only.
  size_t width_ = 0;
  std::vector<int> columns_;
  int label_ = -1;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_PREDICT_ROW_READER_H_
