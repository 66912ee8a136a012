#ifndef COMERA_CLIENT_PREDICT_LOCAL_PREDICTOR_H_
#define COMERA_CLIENT_PREDICT_LOCAL_PREDICTOR_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/child_program.h"
#include "client/predict/row_predictor.h"

namespace comera::client {

// A `comera-trainer --serve` child process, which ends with this object.
class LocalPredictor : public RowPredictor {
 public:
  // Starts `command`, the program and its arguments, and waits until its model
  // is ready. NotFound, PermissionDenied: the program cannot be run.
  // FailedPrecondition: it ended; the message is its last output.
  static absl::StatusOr<std::unique_ptr<LocalPredictor>> Start(
      const std::vector<std::string>& command);

  const v1::ServedModel& model() const override { return model_; }
  // FailedPrecondition: the program ended. InvalidArgument: it refused the
  // request.
  absl::StatusOr<v1::PredictResponse> Predict(
      const v1::PredictRequest& request) override;
  // FailedPrecondition also: the program ended.
  absl::Status Generate(
      const v1::GenerateRequest& request,
      const std::function<absl::Status(const v1::GenerateResponse&)>& take)
      override;
  void Stop() override;

 private:
  explicit LocalPredictor(std::unique_ptr<ChildProgram> program)
      : program_(std::move(program)) {}
  absl::StatusOr<std::string> ReceiveLine();
  absl::Status Ask(const v1::PredictRequest& request);
  // InvalidArgument: the program refused the request.
  absl::StatusOr<v1::PredictResponse> Answer();
  // The status that says why the program no longer answers.
  absl::Status EndOfProgram();

  const std::unique_ptr<ChildProgram> program_;
  std::atomic<bool> stopped_{false};
  v1::ServedModel model_;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_PREDICT_LOCAL_PREDICTOR_H_
