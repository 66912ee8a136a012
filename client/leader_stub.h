#ifndef COMERA_CLIENT_LEADER_STUB_H_
#define COMERA_CLIENT_LEADER_STUB_H_

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "comera/v1/training_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace comera::client {

// The address in the error of a coordinator that does not lead; empty: another
// error, or it knows none.
std::string LeaderOf(const grpc::Status& status);

// A stub for the coordinator that was named, until that sends its callers to
// the one that leads; back to the first when the leader cannot be reached.
// Thread-safe.
//
//   auto stub = leader.Get();
//   leader.Seen(stub->GetJob(...));
class LeaderStub {
 public:
  using Connect =
      std::function<std::shared_ptr<grpc::Channel>(const std::string& address)>;

  // Without `connect` it stays with `channel`.
  LeaderStub(std::shared_ptr<grpc::Channel> channel, Connect connect);

  // For one call.
  std::shared_ptr<v1::TrainingService::Stub> Get() const;
  // The same, for stubs of other services.
  std::shared_ptr<grpc::Channel> Channel() const;
  // How that call ended.
  void Seen(const grpc::Status& status);

 private:
  struct Leader {
    std::shared_ptr<grpc::Channel> channel;
    std::shared_ptr<v1::TrainingService::Stub> stub;
  };
  static Leader MakeLeader(std::shared_ptr<grpc::Channel> channel);

  const Leader first_;
  const Connect connect_;
  mutable std::mutex mutex_;
  Leader current_;  // guarded by mutex_
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_LEADER_STUB_H_
