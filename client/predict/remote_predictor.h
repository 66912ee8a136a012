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
  // Returns a ticket of the coordinator for the model at the worker, good for
  // some time beyond kTicketUse.
  using TicketSource = std::function<absl::StatusOr<std::string>()>;
  // How long a ticket is shown before another is asked for.
  static constexpr absl::Duration kTicketUse = absl::Seconds(30);

  // Has the worker at `address` (its peer_address) load the model. Each call
  // shows a ticket; the worker never sees the caller's token. Workers that have
  // certificates speak TLS and ask callers for one. Without a certificate of
  // its own, this side connects unencrypted, which it does beyond this machine
  // only without a token or if `security` allows it. FailedPrecondition: it
  // does not, or the address is not host:port; nothing was sent. Statuses of
  // LoadModel, of `tickets` and OpenChannel.
  static absl::StatusOr<std::unique_ptr<RemotePredictor>> Connect(
      const std::string& address, const ChannelSecurity& security,
      TicketSource tickets, const std::string& model, absl::Duration timeout);

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
  RemotePredictor(std::unique_ptr<v1::PredictService::Stub> stub,
                  TicketSource tickets)
      : stub_(std::move(stub)), tickets_(std::move(tickets)) {}
  // Runs `call` with a context that Stop can cancel.
  template <typename Call>
  absl::Status Run(absl::Duration timeout, const Call& call);

  const std::unique_ptr<v1::PredictService::Stub> stub_;
  const TicketSource tickets_;
  std::string ticket_;
  absl::Time ticket_until_ = absl::InfinitePast();
  v1::ServedModel model_;
  std::mutex mutex_;
  grpc::ClientContext* running_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_PREDICT_REMOTE_PREDICTOR_H_
