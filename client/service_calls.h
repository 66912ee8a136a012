// Makes unary calls of one service, with the retries of CallRunner.
#ifndef COMERA_CLIENT_SERVICE_CALLS_H_
#define COMERA_CLIENT_SERVICE_CALLS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/call_runner.h"
#include "client/training_client.h"
#include "common/status_macros.h"
#include "grpcpp/grpcpp.h"

namespace comera::client {

// Guards the listing of pages: a page token that repeats would never end.
inline absl::Status CheckPageToken(const std::string& next,
                                   const std::string& asked) {
  if (!next.empty() && next == asked) {
    return absl::InternalError("the server repeats a page token");
  }
  return absl::OkStatus();
}

// The result of a deletion that took so many tries: what a later one does not
// find any more was deleted by an earlier one, whose answer was lost.
inline absl::Status DeletionStatus(const absl::Status& status, int tries) {
  return absl::IsNotFound(status) && tries > 1 ? absl::OkStatus() : status;
}

// Returns the answer of `one_try`, and counts the tries unless `tries` is null.
// Each try gets a fresh response, so that nothing of a broken try remains in
// it.
template <typename Response, typename OneTry>
absl::StatusOr<Response> CallUntilAnswered(CallRunner& runner,
                                           const OneTry& one_try,
                                           int* tries = nullptr) {
  Response response;
  RETURN_IF_ERROR(runner.Unary([&](grpc::ClientContext* context) {
    response.Clear();
    if (tries != nullptr) ++*tries;
    return one_try(context, &response);
  }));
  return response;
}

// A service's stub over one channel. Thread-safe.
//
//   ServiceCalls<v1::ModelService> calls(channel, options);
//   calls.Call(&v1::ModelService::Stub::GetModel, request);
template <typename Service>
class ServiceCalls {
 public:
  using Stub = typename Service::Stub;

  ServiceCalls(std::shared_ptr<grpc::Channel> channel,
               const TrainingClient::Options& options)
      : stub_(Service::NewStub(channel)),
        runner_(options, [channel] { return channel; }) {}

  // Makes a unary call of `method`; see CallUntilAnswered.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(
      grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                   Response*),
      const Request& request, int* tries = nullptr) {
    return CallUntilAnswered<Response>(
        runner_,
        [&](grpc::ClientContext* context, Response* response) {
          return (stub_.get()->*method)(context, request, response);
        },
        tries);
  }

  Stub& stub() { return *stub_; }
  CallRunner& runner() { return runner_; }

 private:
  std::unique_ptr<Stub> stub_;
  CallRunner runner_;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_SERVICE_CALLS_H_
