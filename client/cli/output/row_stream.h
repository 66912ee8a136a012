#ifndef COMERA_CLIENT_CLI_OUTPUT_ROW_STREAM_H_
#define COMERA_CLIENT_CLI_OUTPUT_ROW_STREAM_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "client/predict/row_predictor.h"
#include "client/predict/row_reader.h"

namespace comera::client {

// The number of rows answered, and of those that failed.
struct RowCounts {
  int64_t rows = 0;
  int64_t failed = 0;
  // The line number and error of the first row that failed.
  int64_t first_line = 0;
  std::string first_error;
};

// Passes all rows to the predictor, in batches, and each answer, in order, to
// `report`. Rows are answered at once when the reader would have to wait for
// more. An error of `report` ends it. `request` holds everything but the rows.
//
// Returns the errors of reader and predictor; an error of a row is returned
// after the answers to all rows before it.
absl::Status AnswerRows(
    RowReader* rows, RowPredictor* predictor, v1::PredictRequest request,
    RowCounts* counts,
    const std::function<absl::Status(const v1::PredictRow&,
                                     const v1::Prediction&)>& report);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_OUTPUT_ROW_STREAM_H_
