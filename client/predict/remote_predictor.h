#ifndef COMERA_CLIENT_PREDICT_REMOTE_PREDICTOR_H_
#define COMERA_CLIENT_PREDICT_REMOTE_PREDICTOR_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/predict/row_predictor.h"
#include "comera/v1/predict_service.grpc.pb.h"
#include "common/rpc_channel.h"
#include "grpcpp/grpcpp.h"

namespace comera::client {

// The payload key that marks statuses that come from a worker, or that say it
// cannot be reached, because other statuses may look the same.
inline constexpr char kWorkerStatusPayload[] = "comera.client.of_worker";

// A worker that serves a model of the coordinator's store.
class RemotePredictor : public RowPredictor {
 public:
  // Has the worker at `address` (its peer_address) load the model. Workers that
  // have certificates speak TLS and ask callers for one. Without a certificate
  // of its own, this side connects unencrypted, and sends no token beyond this
  // machine unless `security` allows it. FailedPrecondition: the address is not
  // host:port, and nothing was sent. Statuses of LoadModel and OpenChannel.
  static absl::StatusOr<std::unique_ptr<RemotePredictor>> Connect(
      const std::string& address, const ChannelSecurity& security,
      const std::string& model, absl::Duration timeout);

  const v1::ServedModel& model() const override { return model_; }
  // Returns the statuses of Predict; retries for a while if the worker is away.
  absl::StatusOr<v1::PredictResponse> Predict(
      const v1::PredictRequest& request) override;
  // Returns the statuses of Generate; retries for a while if the worker is away
  // before the text begins.
  absl::Status Generate(
      const v1::GenerateRequest& request,
      const std::function<absl::Status(const v1::GenerateResponse&)>& take)
      override;
  void Stop() override;

 private:
  explicit RemotePredictor(std::unique_ptr<v1::PredictService::Stub> stub)
      : stub_(std::move(stub)) {}
  // Runs `call` with a context that Stop can cancel.
  template <typename Call>
  absl::Status Run(absl::Duration timeout, const Call& call);

  const std::unique_ptr<v1::PredictService::Stub> stub_;
  v1::ServedModel model_;
  std::mutex mutex_;
  grpc::ClientContext* running_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_PREDICT_REMOTE_PREDICTOR_H_
