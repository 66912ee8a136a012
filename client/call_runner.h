// Runs RPCs with retries and deadlines, and stops them on demand.
#ifndef COMERA_CLIENT_CALL_RUNNER_H_
#define COMERA_CLIENT_CALL_RUNNER_H_

#include <functional>
#include <mutex>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "client/training_client.h"
#include "common/event.h"
#include "grpcpp/grpcpp.h"

namespace comera::client {

// Repeats calls until they succeed, fail for good, or run out of time.
// Thread-safe.
class CallRunner {
 public:
  // Returns the channel for the next call.
  using Channel = std::function<std::shared_ptr<grpc::Channel>()>;

  CallRunner(const TrainingClient::Options& options, Channel channel);

  // Runs `call`, which makes one try with the given context. It is repeated on
  // UNAVAILABLE and DEADLINE_EXCEEDED, and on RESOURCE_EXHAUSTED if the server
  // says when to retry, until options.timeout is over.
  absl::Status Unary(
      const std::function<grpc::Status(grpc::ClientContext*)>& call);

  // How one try of a streaming call ended.
  struct StreamEnd {
    grpc::Status status;
    // Whether the stream brought anything. If so, the connection worked, and
    // the time for reconnecting begins anew.
    bool progressed = false;
    // Whether the caller has all it wanted.
    bool done = false;
  };
  // Opens streams by calling `stream` until one is done or fails for good,
  // `deadline` is over, or no stream has progressed for
  // options.reconnect_timeout.
  absl::Status Stream(
      absl::Time deadline,
      const std::function<StreamEnd(grpc::ClientContext*)>& stream);

  void Stop();
  bool stopped() const { return stopped_.HasHappened(); }

 private:
  // One call's context with its deadline, registered so that Stop() can cancel
  // it.
  class Call;

  // Waits before try `attempt` (from 1): as long as the server asks for, or
  // until a lost connection is up again. Returns false once stopped.
  bool Pause(int attempt, absl::Duration at_least, absl::Time no_later_than);

  const TrainingClient::Options options_;
  const Channel channel_;
  Event stopped_;
  std::mutex mutex_;
  std::set<grpc::ClientContext*> running_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_CALL_RUNNER_H_
