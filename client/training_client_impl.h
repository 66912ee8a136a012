// The shared implementation of TrainingClient's methods.
#ifndef COMERA_CLIENT_TRAINING_CLIENT_IMPL_H_
#define COMERA_CLIENT_TRAINING_CLIENT_IMPL_H_

#include <memory>
#include <utility>

#include "client/leader_stub.h"
#include "client/service_calls.h"
#include "client/training_client.h"
#include "comera/v1/queue_service.grpc.pb.h"
#include "comera/v1/training_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace comera::client {

// Calls the coordinator that is the leader. Thread-safe.
class TrainingClient::Impl {
 public:
  Impl(std::shared_ptr<grpc::Channel> channel, LeaderStub::Connect connect,
       const Options& options)
      : stub_(std::move(channel), std::move(connect)),
        runner_(options, [this] { return stub_.Channel(); }) {}

  // Makes a unary call of `method`; see CallUntilAnswered.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(
      grpc::Status (v1::TrainingService::Stub::*method)(grpc::ClientContext*,
                                                        const Request&,
                                                        Response*),
      const Request& request, int* tries = nullptr) {
    return CallUntilAnswered<Response>(
        runner_,
        [&](grpc::ClientContext* context, Response* response) {
          const grpc::Status status =
              (stub_.Get().get()->*method)(context, request, response);
          stub_.Observe(status);
          return status;
        },
        tries);
  }

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(
      grpc::Status (v1::QueueService::Stub::*method)(grpc::ClientContext*,
                                                     const Request&, Response*),
      const Request& request) {
    return CallUntilAnswered<Response>(
        runner_, [&](grpc::ClientContext* context, Response* response) {
          const auto stub = v1::QueueService::NewStub(stub_.Channel());
          const grpc::Status status =
              (stub.get()->*method)(context, request, response);
          stub_.Observe(status);
          return status;
        });
  }

  LeaderStub& stub() { return stub_; }
  CallRunner& runner() { return runner_; }

 private:
  LeaderStub stub_;
  CallRunner runner_;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_TRAINING_CLIENT_IMPL_H_
