#ifndef COMERA_CLIENT_LEADER_STUB_H_
#define COMERA_CLIENT_LEADER_STUB_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "comera/v1/training_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace comera::client {

// The leader's address, if `status` comes from a coordinator that is not the
// leader and knows it; else empty.
std::string LeaderOf(const grpc::Status& status);

// Provides a stub for the leader. It starts with the coordinator that the user
// named, follows its redirections, and goes back to it when the leader cannot
// be reached. Thread-safe.
//
//   auto stub = leader.Get();
//   leader.Observe(stub->GetJob(...));
class LeaderStub {
 public:
  using Connect =
      std::function<std::shared_ptr<grpc::Channel>(const std::string& address)>;

  // Without `connect`, it always uses `channel`.
  LeaderStub(std::shared_ptr<grpc::Channel> channel, Connect connect);

  // The stub for the next call.
  std::shared_ptr<v1::TrainingService::Stub> Get() const;
  // The channel for the next call, for stubs of other services.
  std::shared_ptr<grpc::Channel> Channel() const;
  // Must be given the status of every call, to notice changes of leader.
  void Observe(const grpc::Status& status);

 private:
  struct Leader {
    std::shared_ptr<grpc::Channel> channel;
    std::shared_ptr<v1::TrainingService::Stub> stub;
  };
  static Leader MakeLeader(std::shared_ptr<grpc::Channel> channel);

  const Leader first_;
  const Connect connect_;
  mutable std::mutex mutex_;
  Leader current_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_LEADER_STUB_H_
