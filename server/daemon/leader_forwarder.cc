// Joins a caller's stream with one to the leader.
#include "server/daemon/leader_forwarder.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "grpcpp/generic/generic_stub.h"
#include "server/api/audited_call.h"
#include "server/rpc/rejected_stream.h"

namespace comera::server {
namespace {

// Metadata of the connection itself, and of this coordinator's own marks.
bool IsForwarded(absl::string_view key) {
  return key.rfind(':', 0) != 0 && !absl::StartsWith(key, "grpc-") &&
         key != "user-agent" && key != "content-type" && key != "te" &&
         !ForwardedCalls::IsMark(key);
}

std::string Text(grpc::string_ref text) {
  return std::string(text.data(), text.size());
}

}  // namespace

// One call, which is two streams. Each waits for the other: the next message is
// read once the one before has been written to the other side. The stream to
// the leader ends first; its status ends the caller's. Deletes itself.
class LeaderForwarder::Call : public grpc::ServerGenericBidiReactor {
 public:
  Call(LeaderForwarder* owner, grpc::GenericCallbackServerContext* context,
       const std::shared_ptr<grpc::Channel>& channel, const std::string& secret)
      : owner_(*owner),
        context_(*context),
        method_(context->method()),
        stub_(channel),
        far_(this) {
    for (const auto& [key, value] : context->client_metadata()) {
      if (IsForwarded(absl::string_view(key.data(), key.size()))) {
        far_context_.AddMetadata(Text(key), Text(value));
      }
    }
    ForwardedCalls::Mark(secret, owner_.forwarded_->OriginOf(*context),
                         &far_context_);
    far_context_.set_deadline(context->deadline());
    stub_.PrepareBidiStreamingCall(&far_context_, method_, grpc::StubOptions(),
                                   &far_);
    // One for each direction, until nothing more can be started in it.
    far_.AddMultipleHolds(2);
    far_.StartCall();
    StartRead(&request_);
  }

 private:
  class Far
      : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
   public:
    explicit Far(Call* call) : call_(*call) {}

    void OnReadInitialMetadataDone(bool ok) override {
      if (ok) {
        for (const auto& [key, value] :
             call_.far_context_.GetServerInitialMetadata()) {
          call_.context_.AddInitialMetadata(Text(key), Text(value));
        }
      }
      StartRead(&call_.response_);
    }
    void OnReadDone(bool ok) override { call_.OnResponse(ok); }
    void OnWriteDone(bool ok) override { call_.OnRequestPassed(ok); }
    void OnDone(const grpc::Status& status) override { call_.End(status); }

   private:
    Call& call_;
  };

  // From the caller to the leader.
  void OnReadDone(bool ok) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (answered_) return;
    if (ok) {
      far_.StartWrite(&request_);
    } else {
      far_.StartWritesDone();
      StopRequests();
    }
  }
  void OnRequestPassed(bool ok) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (answered_) return;
    if (ok) {
      StartRead(&request_);
    } else {
      StopRequests();
    }
  }
  // With mutex_ held.
  void StopRequests() {
    if (requests_end_) return;
    requests_end_ = true;
    far_.RemoveHold();
  }

  // From the leader to the caller.
  void OnResponse(bool ok) {
    if (ok) return StartWrite(&response_);
    {
      // The leader is done, whatever the caller still sends.
      const std::lock_guard<std::mutex> lock(mutex_);
      answered_ = true;
      StopRequests();
    }
    far_.RemoveHold();
  }
  void OnWriteDone(bool ok) override {
    if (!ok) far_context_.TryCancel();
    far_.StartRead(&response_);
  }

  void End(const grpc::Status& status) {
    for (const auto& [key, value] : far_context_.GetServerTrailingMetadata()) {
      // The status's details are in it.
      if (IsForwarded(absl::string_view(key.data(), key.size()))) {
        context_.AddTrailingMetadata(Text(key), Text(value));
      }
    }
    if (status.error_code() == grpc::StatusCode::CANCELLED &&
        !context_.IsCancelled()) {
      // A leader that steps down cancels what it has; the caller did not.
      return Finish(
          grpc::Status(grpc::StatusCode::UNAVAILABLE,
                       "the coordinator that leads has changed: ask again"));
    }
    if (!status.ok() || !ChangesSomething(method_)) return Finish(status);
    owner_.catch_up_([this, status] { Finish(status); });
  }

  void OnCancel() override { far_context_.TryCancel(); }
  void OnDone() override { delete this; }

  LeaderForwarder& owner_;
  grpc::GenericCallbackServerContext& context_;
  const std::string method_;
  grpc::GenericStub stub_;
  grpc::ClientContext far_context_;
  Far far_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;

  std::mutex mutex_;
  bool answered_ ABSL_GUARDED_BY(mutex_) = false;
  bool requests_end_ ABSL_GUARDED_BY(mutex_) = false;
};

LeaderForwarder::LeaderForwarder(ChannelSecurity security,
                                 const LeaderHint* leader,
                                 const ForwardedCalls* forwarded,
                                 CatchUp catch_up)
    : security_(std::move(security)),
      leader_(leader),
      forwarded_(forwarded),
      catch_up_(std::move(catch_up)) {}

absl::StatusOr<std::shared_ptr<grpc::Channel>> LeaderForwarder::ChannelTo(
    const std::string& address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (channel_ != nullptr && address_ == address) return channel_;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  ASSIGN_OR_RETURN(channel_, OpenChannel(address, security_, arguments));
  address_ = address;
  return channel_;
}

grpc::ServerGenericBidiReactor* LeaderForwarder::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  using Refusal = RejectedStream<grpc::ServerGenericBidiReactor>;
  const LeaderHint::Leader leader = leader_->Get();
  // Another follower believes that this one leads; it would go on in circles.
  const bool again = ForwardedCalls::IsMarked(*context) &&
                     !forwarded_->Find(*context).has_value();
  if (leader.address.empty() || again) {
    return new Refusal(absl::UnavailableError(
        "no coordinator leads at the moment: ask again"));
  }
  // A leader of an earlier version knows no calls that are passed on.
  if (leader.secret.empty()) return new Refusal(leader_->NotLeader());
  const auto channel = ChannelTo(leader.address);
  if (!channel.ok()) return new Refusal(channel.status());
  return new Call(this, context, *channel, leader.secret);
}

}  // namespace comera::server
