// Retries, deadlines and stopping of RPCs.
#ifndef COMERA_CLIENT_CALL_RUNNER_H_
#define COMERA_CLIENT_CALL_RUNNER_H_

#include <functional>
#include <mutex>
#include <set>

#include "absl/status/status.h"
#include "client/event.h"
#include "client/training_client.h"
#include "grpcpp/grpcpp.h"

namespace comera::client {

// Runs calls until they succeed, fail for good, or run out of time. Thread
// safe.
class CallRunner {
 public:
  // The channel of the next call.
  using Channel = std::function<std::shared_ptr<grpc::Channel>()>;

  CallRunner(const TrainingClient::Options& options, Channel channel);

  // `call` makes one try with the context it is given. Repeated on UNAVAILABLE
  // and DEADLINE_EXCEEDED, and on RESOURCE_EXHAUSTED when the server says after
  // what time, until options.timeout is over.
  absl::Status Unary(
      const std::function<grpc::Status(grpc::ClientContext*)>& call);

  // One try of a streaming call.
  struct StreamEnd {
    grpc::Status status;
    // Whether the stream brought anything: it then worked, and the patience
    // for reconnecting begins anew.
    bool progressed = false;
    // The caller has all it wanted.
    bool done = false;
  };
  // Opens streams by `stream` until one is done, fails for good, `deadline`
  // is over, or no stream progressed for options.reconnect_timeout.
  absl::Status Stream(
      absl::Time deadline,
      const std::function<StreamEnd(grpc::ClientContext*)>& stream);

  void Stop();
  bool stopped() const { return stopped_.HasHappened(); }

 private:
  // A context that Stop() reaches, with its deadline.
  class Call;

  // Waits before try `attempt` (from 1), as long as the server asks for, or
  // until a connection that was lost is there again. False once stopped.
  bool Pause(int attempt, absl::Duration at_least, absl::Time no_later_than);

  const TrainingClient::Options options_;
  const Channel channel_;
  Event stopped_;
  std::mutex mutex_;
  std::set<grpc::ClientContext*> running_;  // guarded by mutex_
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_CALL_RUNNER_H_
