#ifndef COMERA_CLIENT_PREDICT_LOCAL_PREDICTOR_H_
#define COMERA_CLIENT_PREDICT_LOCAL_PREDICTOR_H_

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/predict/row_predictor.h"

namespace comera::client {

// `comera-trainer --serve` as a child process, which ends with this object.
class LocalPredictor : public RowPredictor {
 public:
  // `command`: the program and its arguments. Waits until the model is ready.
  // NotFound, PermissionDenied: the program. FailedPrecondition: it ended; the
  // message is what it said last.
  static absl::StatusOr<std::unique_ptr<LocalPredictor>> Start(
      const std::vector<std::string>& command);
  ~LocalPredictor() override;

  const v1::ServedModel& model() const override { return model_; }
  // FailedPrecondition: the program ended. InvalidArgument: it refuses.
  absl::StatusOr<v1::PredictResponse> Predict(
      const v1::PredictRequest& request) override;
  void Stop() override;

 private:
  LocalPredictor() = default;
  absl::Status Launch(const std::vector<std::string>& command);
  absl::Status Send(const std::string& line);
  absl::StatusOr<std::string> ReceiveLine();
  // Why the program does not answer any more.
  absl::Status EndOfProgram();

  pid_t pid_ = -1;
  int input_ = -1, output_ = -1;  // its streams
  int errors_ = -1;               // a file in memory
  std::string received_;
  std::atomic<bool> stopped_{false};
  v1::ServedModel model_;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_PREDICT_LOCAL_PREDICTOR_H_
