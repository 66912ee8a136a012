// Follows the leader named in errors, and falls back to the first coordinator.

#include "client/leader_stub.h"

#include <utility>

#include "comera/rpc/error_details.pb.h"

namespace comera::client {
namespace {

constexpr size_t kMaxAddress = 300;

}  // namespace

std::string LeaderOf(const grpc::Status& status) {
  google::rpc::Status details;
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE ||
      !details.ParseFromString(status.error_details())) {
    return "";
  }
  for (const google::protobuf::Any& any : details.details()) {
    google::rpc::ErrorInfo info;
    if (!any.UnpackTo(&info) || info.reason() != "NOT_LEADER") continue;
    const auto leader = info.metadata().find("leader");
    if (leader == info.metadata().end()) continue;
    // Only host:port is accepted, nothing that gRPC would take for another kind
    // of target.
    const std::string& address = leader->second;
    const bool sane = address.size() <= kMaxAddress &&
                      address.find_first_not_of(
                          "abcdefghijklmnopqrstuvwxyz"
                          "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                          "0123456789.-_:[]") == std::string::npos;
    return sane ? address : "";
  }
  return "";
}

LeaderStub::Leader LeaderStub::MakeLeader(
    std::shared_ptr<grpc::Channel> channel) {
  return {channel, v1::TrainingService::NewStub(channel)};
}

LeaderStub::LeaderStub(std::shared_ptr<grpc::Channel> channel, Connect connect)
    : first_(MakeLeader(std::move(channel))),
      connect_(std::move(connect)),
      current_(first_) {}

std::shared_ptr<v1::TrainingService::Stub> LeaderStub::Get() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return current_.stub;
}

std::shared_ptr<grpc::Channel> LeaderStub::Channel() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return current_.channel;
}

void LeaderStub::Observe(const grpc::Status& status) {
  if (connect_ == nullptr ||
      status.error_code() != grpc::StatusCode::UNAVAILABLE) {
    return;
  }
  const std::string leader = LeaderOf(status);
  const std::lock_guard<std::mutex> lock(mutex_);
  current_ = leader.empty() ? first_ : MakeLeader(connect_(leader));
}

}  // namespace comera::client
