// Sends rows to a predictor in batches and reports the answers in order.

#include "client/cli/output/row_stream.h"

#include <vector>

#include "common/status_macros.h"

namespace comera::client {
namespace {

// The most rows in one request.
constexpr int kMostRows = 256;
constexpr int64_t kMostBytes = int64_t{1} << 20;

}  // namespace

absl::Status AnswerRows(
    RowReader* rows, RowPredictor* predictor, v1::PredictRequest request,
    RowCounts* counts,
    const std::function<absl::Status(const v1::PredictRow&,
                                     const v1::Prediction&)>& report) {
  std::vector<int64_t> lines;
  absl::Status end;
  bool more = true;
  while (more) {
    request.clear_rows();
    lines.clear();
    int64_t bytes = 0;
    while (request.rows_size() < kMostRows && bytes < kMostBytes) {
      if (request.rows_size() > 0 && rows->MayWait()) break;
      const absl::StatusOr<bool> read = rows->Next(request.add_rows());
      more = read.ok() && *read;
      end = read.status();
      if (!more) {
        request.mutable_rows()->RemoveLast();
        break;
      }
      lines.push_back(rows->line_number());
      bytes += static_cast<int64_t>(
          request.rows(request.rows_size() - 1).ByteSizeLong());
    }
    if (request.rows_size() == 0) break;
    ASSIGN_OR_RETURN(const v1::PredictResponse response,
                     predictor->Predict(request));
    for (int i = 0; i < response.predictions_size(); ++i) {
      const v1::Prediction& prediction = response.predictions(i);
      ++counts->rows;
      if (!prediction.error().empty() && counts->failed++ == 0) {
        counts->first_line = lines[i];
        counts->first_error = prediction.error();
      }
      RETURN_IF_ERROR(report(request.rows(i), prediction));
    }
  }
  return end;
}

}  // namespace comera::client
