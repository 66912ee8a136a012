// Converts absl::Status to grpc::Status and back; the codes are the same
// numbers.
#ifndef COMERA_COMMON_GRPC_STATUS_H_
#define COMERA_COMMON_GRPC_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "grpcpp/grpcpp.h"

namespace comera {

// The payload that holds google.rpc details: it becomes the details of the
// grpc::Status, and back.
inline constexpr char kStatusDetailsUrl[] =
    "type.googleapis.com/google.rpc.Status";

inline grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::string details;
  if (auto payload = status.GetPayload(kStatusDetailsUrl)) {
    details = std::string(*payload);
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      std::string(status.message()), details);
}

inline absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
  if (!status.error_details().empty()) {
    result.SetPayload(kStatusDetailsUrl, absl::Cord(status.error_details()));
  }
  return result;
}

}  // namespace comera

#endif  // COMERA_COMMON_GRPC_STATUS_H_
