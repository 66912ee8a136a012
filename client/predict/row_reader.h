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
  kTsv,     // a header line, then a row a line
  kJsonl,   // a JSON object a line
  kText,    // a line is a text
  kCriteo,  // label or not, numbers and categories with tabs, no header
};

// Rows of data for a model, from a file or standard input.
//
// TSV: the columns, by name or number (from 0; negative from the end), hold
// text and second text; without names, those that the model was trained on, or
// "text" and "text_pair". JSON lines: the fields by name, likewise; or
// "numbers" and "categories" as arrays. A model trained on joined fields gets
// them joined.
//
// Not thread-safe.
class RowReader {
 public:
  struct Options {
    RowFormat format = RowFormat::kJsonl;
    // Empty: see above.
    std::vector<std::string> columns;
    // Empty: the model's, or "label".
    std::string label_column;
    // Rows carry their labels, which must be there.
    bool labels = false;
    // TSV: no header line; columns are numbers.
    bool no_header = false;
  };

  // Reads the header, if there is one. InvalidArgument: a column that is not
  // there, with file and line; a format that is not for such a model.
  static absl::StatusOr<std::unique_ptr<RowReader>> Create(
      std::unique_ptr<LineSource> source, const v1::ServedModel& model,
      const Options& options);

  // False at the end. InvalidArgument with file and line.
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
  // As the model's fields make them.
  void PutTexts(std::vector<std::string> texts, v1::PredictRow* row) const;

  const std::unique_ptr<LineSource> source_;
  const v1::ServedModel model_;
  const Options options_;
  // TSV.
  size_t width_ = 0;
  std::vector<int> columns_;
  int label_ = -1;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_PREDICT_ROW_READER_H_
