#ifndef COMERA_SERVER_RPC_REJECTED_STREAM_H_
#define COMERA_SERVER_RPC_REJECTED_STREAM_H_

#include "grpcpp/grpcpp.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {

// A stream that ends at once with an error. Deletes itself.
template <typename Reactor>
class RejectedStream : public Reactor {
 public:
  explicit RejectedStream(const absl::Status& status) {
    this->Finish(ToRpcStatus(status));
  }

 private:
  void OnDone() override { delete this; }
};

template <typename Response>
grpc::ServerWriteReactor<Response>* RejectStream(const absl::Status& status) {
  return new RejectedStream<grpc::ServerWriteReactor<Response>>(status);
}

template <typename Request>
grpc::ServerReadReactor<Request>* RejectUpload(const absl::Status& status) {
  return new RejectedStream<grpc::ServerReadReactor<Request>>(status);
}

}  // namespace comera::server

#endif  // COMERA_SERVER_RPC_REJECTED_STREAM_H_
