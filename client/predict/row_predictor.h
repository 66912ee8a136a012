#ifndef COMERA_CLIENT_PREDICT_ROW_PREDICTOR_H_
#define COMERA_CLIENT_PREDICT_ROW_PREDICTOR_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/predict_service.pb.h"

namespace comera::client {

// A model that answers requests: in a program on this machine, or on a worker.
//
// Call Predict and Generate from one thread; Stop from any.
class RowPredictor {
 public:
  virtual ~RowPredictor() = default;

  virtual const v1::ServedModel& model() const = 0;
  // Returns one prediction per row. Cancelled after Stop.
  virtual absl::StatusOr<v1::PredictResponse> Predict(
      const v1::PredictRequest& request) = 0;
  // Continues a text and passes each piece to `take` as it comes; the last has
  // `finish`. FailedPrecondition: the model generates no text. InvalidArgument:
  // a field of the request is out of its limits. Cancelled after Stop. An error
  // of `take` ends the text, and the object is of no more use.
  virtual absl::Status Generate(
      const v1::GenerateRequest& request,
      const std::function<absl::Status(const v1::GenerateResponse&)>& take) = 0;
  // Ends a running call and all later ones.
  virtual void Stop() = 0;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_PREDICT_ROW_PREDICTOR_H_
