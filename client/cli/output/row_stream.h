#ifndef COMERA_CLIENT_CLI_OUTPUT_ROW_STREAM_H_
#define COMERA_CLIENT_CLI_OUTPUT_ROW_STREAM_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "client/predict/row_predictor.h"
#include "client/predict/row_reader.h"

namespace comera::client {

// How many rows were answered, and how many could not be.
struct RowCounts {
  int64_t rows = 0;
  int64_t failed = 0;
  // Of the first that could not be: its line and why.
  int64_t first_line = 0;
  std::string first_error;
};

// Gives all rows to the predictor, so many at a time, and each answer, in
// order, to `tell`; a row of a reader that would have to wait is not kept
// waiting. What `tell` returns ends it. `request` holds all but the rows.
//
// Errors of both; those of a row that was read wrongly come after the answers
// to all rows before it.
absl::Status AnswerRows(
    RowReader* rows, RowPredictor* predictor, v1::PredictRequest request,
    RowCounts* counts,
    const std::function<absl::Status(const v1::PredictRow&,
                                     const v1::Prediction&)>& tell);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_OUTPUT_ROW_STREAM_H_
