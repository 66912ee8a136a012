// Puts google.rpc details into the errors that calls end with.
#include "server/rpc/rpc_errors.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "comera/rpc/error_details.pb.h"
#include "common/grpc_status.h"

namespace comera::server {
namespace {

void AddErrorInfo(const absl::Status& status, google::rpc::Status* out) {
  google::rpc::ErrorInfo info;
  info.set_domain("comera");
  info.set_reason(absl::StatusCodeToString(status.code()));
  out->add_details()->PackFrom(info);
}

absl::Status WithDetails(const absl::Status& status,
                         const google::rpc::BadRequest& bad_request,
                         absl::Duration retry_delay = absl::ZeroDuration()) {
  google::rpc::Status proto;
  proto.set_code(static_cast<int>(status.code()));
  proto.set_message(std::string(status.message()));
  AddErrorInfo(status, &proto);
  if (bad_request.field_violations_size() > 0) {
    proto.add_details()->PackFrom(bad_request);
  }
  if (absl::IsUnavailable(status)) retry_delay = absl::Seconds(1);
  if (retry_delay > absl::ZeroDuration()) {
    google::rpc::RetryInfo retry;
    absl::Duration rest;
    retry.mutable_retry_delay()->set_seconds(
        absl::IDivDuration(retry_delay, absl::Seconds(1), &rest));
    retry.mutable_retry_delay()->set_nanos(
        static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
    proto.add_details()->PackFrom(retry);
  }
  absl::Status result = status;
  result.SetPayload(kStatusDetailsUrl, absl::Cord(proto.SerializeAsString()));
  return result;
}

bool IsFieldPath(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' ||
           c == '.' || c == '[' || c == ']';
  });
}

}  // namespace

absl::Status InvalidSpec(const std::vector<FieldViolation>& violations) {
  google::rpc::BadRequest bad_request;
  std::string message;
  for (const FieldViolation& violation : violations) {
    auto* out = bad_request.add_field_violations();
    out->set_field(absl::StrCat("spec.", violation.field));
    out->set_description(violation.description);
    absl::StrAppend(&message, message.empty() ? "" : "; ", violation.field,
                    ": ", violation.description);
  }
  return WithDetails(absl::InvalidArgumentError(message), bad_request);
}

absl::Status InvalidField(const std::string& field,
                          const std::string& description) {
  google::rpc::BadRequest bad_request;
  auto* out = bad_request.add_field_violations();
  out->set_field(field);
  out->set_description(description);
  return WithDetails(
      absl::InvalidArgumentError(absl::StrCat(field, ": ", description)),
      bad_request);
}

absl::Status TryAgainAfter(absl::Duration delay, const std::string& message) {
  return WithDetails(absl::ResourceExhaustedError(message),
                     google::rpc::BadRequest(),
                     std::max(delay, absl::Milliseconds(1)));
}

absl::Status NotLeader(const std::string& leader) {
  const absl::Status status = absl::UnavailableError(
      leader.empty()
          ? "this coordinator does not lead, and nobody does yet"
          : absl::StrCat("this coordinator does not lead: call ", leader));
  google::rpc::ErrorInfo info;
  info.set_domain("comera");
  info.set_reason("NOT_LEADER");
  if (!leader.empty()) (*info.mutable_metadata())["leader"] = leader;
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(1);
  google::rpc::Status proto;
  proto.set_code(static_cast<int>(status.code()));
  proto.set_message(std::string(status.message()));
  proto.add_details()->PackFrom(info);
  proto.add_details()->PackFrom(retry);
  absl::Status result = status;
  result.SetPayload(kStatusDetailsUrl, absl::Cord(proto.SerializeAsString()));
  return result;
}

grpc::Status ToRpcStatus(const absl::Status& status) {
  if (status.ok() || status.GetPayload(kStatusDetailsUrl)) {
    return ToGrpcStatus(status);
  }
  const std::string_view message(status.message().data(),
                                 status.message().size());
  const size_t colon = message.find(": ");
  if (absl::IsInvalidArgument(status) && colon != std::string_view::npos &&
      IsFieldPath(message.substr(0, colon))) {
    return ToGrpcStatus(InvalidField(std::string(message.substr(0, colon)),
                                     std::string(message.substr(colon + 2))));
  }
  return ToGrpcStatus(WithDetails(status, google::rpc::BadRequest()));
}

}  // namespace comera::server
