// Joins a caller's stream with one to the leader.
#include "server/daemon/leader_forwarder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/coordinator_address.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "common/steady_time.h"
#include "grpcpp/generic/generic_stub.h"
#include "server/api/audited_call.h"
#include "server/daemon/no_answer.h"
#include "server/rpc/rejected_stream.h"

namespace comera::server {
namespace {

// How often the calls that are held are looked at.
constexpr absl::Duration kLook = absl::Milliseconds(20);
// When a call goes to a coordinator that did not begin it once more: that one
// may be about to lead.
constexpr absl::Duration kPause = absl::Milliseconds(100);

// Metadata of the connection itself, and of coordinators' own marks.
bool IsForwarded(absl::string_view key) {
  return key.rfind(':', 0) != 0 && !absl::StartsWith(key, "grpc-") &&
         key != "user-agent" && key != "content-type" && key != "te" &&
         key != kNoAnswerMetadata && !ForwardedCalls::IsMark(key);
}

std::string Text(grpc::string_ref text) {
  return std::string(text.data(), text.size());
}

absl::Status NobodyLeads() {
  return absl::UnavailableError(
      "no coordinator leads at the moment: ask again");
}

}  // namespace

// One call, which is two streams. Each waits for the other: the next message is
// read once the one before has been written to the other side. The stream to
// the leader ends first; its status ends the caller's, unless the call is to
// begin again with another stream. Deletes itself.
class LeaderForwarder::Call : public grpc::ServerGenericBidiReactor {
 public:
  Call(LeaderForwarder* owner, grpc::GenericCallbackServerContext* context)
      : owner_(*owner),
        context_(*context),
        method_(context->method()),
        give_up_(SteadyNow() + owner->options_.patience) {}

  absl::Time give_up() const { return give_up_; }
  // While it is held: when it may be passed on.
  absl::Time not_before() const { return not_before_; }
  bool cancelled() const { return context_.IsCancelled(); }

  // Opens a stream to the leader.
  void PassOn(const std::shared_ptr<grpc::Channel>& channel,
              const std::string& secret) {
    const std::lock_guard<std::mutex> lock(mutex_);
    far_ = std::make_unique<Far>(this, channel, secret);
    far_->Start();
    Pump();
  }

  void Refuse(const absl::Status& status) { Finish(ToRpcStatus(status)); }
  // Tells a caller who is known here where the leader is.
  void SendToLeader() {
    AccessControl* const access = owner_.options_.access;
    const absl::Status known = access == nullptr
                                   ? absl::OkStatus()
                                   : access->Identify(context_).status();
    Refuse(known.ok() ? owner_.leader_->NotLeader() : known);
  }

 private:
  // The stream to a leader.
  class Far
      : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
   public:
    Far(Call* call, const std::shared_ptr<grpc::Channel>& channel,
        const std::string& secret)
        : call_(*call), stub_(channel) {
      const grpc::GenericCallbackServerContext& near = call_.context_;
      for (const auto& [key, value] : near.client_metadata()) {
        if (IsForwarded(absl::string_view(key.data(), key.size()))) {
          context_.AddMetadata(Text(key), Text(value));
        }
      }
      ForwardedCalls::Mark(secret, call_.owner_.forwarded_->OriginOf(near),
                           &context_);
      context_.set_deadline(near.deadline());
    }

    void Start() {
      stub_.PrepareBidiStreamingCall(&context_, call_.method_,
                                     grpc::StubOptions(), this);
      // One for each direction, until nothing more can be started in it.
      AddMultipleHolds(2);
      StartCall();
    }

    grpc::ClientContext& context() { return context_; }
    // The call's lock guards the following members.
    int64_t sent = 0;
    bool writing = false;
    bool requests_end = false;
    grpc::ByteBuffer request;

   private:
    void OnReadInitialMetadataDone(bool) override {
      StartRead(&call_.response_);
    }
    void OnReadDone(bool ok) override { call_.OnResponse(this, ok); }
    void OnWriteDone(bool ok) override { call_.OnRequestPassed(ok); }
    void OnDone(const grpc::Status& status) override { call_.OnEnd(status); }

    Call& call_;
    grpc::GenericStub stub_;
    grpc::ClientContext context_;
  };

  // From the caller to the leader: does the next thing that can be done.
  void Pump() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (far_ == nullptr || far_->requests_end || far_->writing) return;
    if (far_->sent < read_) {
      // What was read last, unless a call of two messages begins again.
      far_->request = far_->sent == 0 ? first_ : request_;
      far_->writing = true;
      far_->StartWrite(&far_->request);
    } else if (all_read_) {
      far_->StartWritesDone();
      StopRequests();
    } else if (!reading_) {
      reading_ = true;
      StartRead(&request_);
    }
  }
  void OnReadDone(bool ok) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    reading_ = false;
    if (ok) {
      // What refers to the same bytes costs nothing.
      if (++read_ == 1) first_ = request_;
    } else {
      all_read_ = true;
    }
    Pump();
  }
  void OnRequestPassed(bool ok) {
    const std::lock_guard<std::mutex> lock(mutex_);
    far_->writing = false;
    if (far_->requests_end) return;
    if (!ok) return StopRequests();
    // It will not be needed once more (MayBeginAgain).
    if (++far_->sent == 2) first_.Clear();
    Pump();
  }
  void StopRequests() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (far_->requests_end) return;
    far_->requests_end = true;
    far_->RemoveHold();
  }

  // From the leader to the caller.
  void OnResponse(Far* far, bool ok) {
    if (ok) {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        PassInitialMetadata();
        answered_ = true;
      }
      return StartWrite(&response_);
    }
    {
      // The leader is done, whatever the caller still sends.
      const std::lock_guard<std::mutex> lock(mutex_);
      StopRequests();
    }
    far->RemoveHold();
  }
  void OnWriteDone(bool ok) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!ok) far_->context().TryCancel();
    far_->StartRead(&response_);
  }
  void PassInitialMetadata() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (answered_) return;
    for (const auto& [key, value] :
         far_->context().GetServerInitialMetadata()) {
      context_.AddInitialMetadata(Text(key), Text(value));
    }
  }

  // Whether nothing of the call was answered, its requests are all here, and
  // another leader may do it.
  bool MayBeginAgain(const grpc::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (status.ok() || answered_ || far_->sent > 1 || context_.IsCancelled()) {
      return false;
    }
    const auto& metadata = far_->context().GetServerTrailingMetadata();
    const auto said = metadata.find(kNoAnswerMetadata);
    if (said != metadata.end() && said->second == kNotBegun) return true;
    if (ChangesSomething(method_)) return false;
    // A leader's own error has its term; another comes from the connection.
    return said != metadata.end() ||
           (metadata.count(kTermMetadata) == 0 &&
            (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
             status.error_code() == grpc::StatusCode::CANCELLED));
  }

  void OnEnd(const grpc::Status& status) {
    std::unique_ptr<Far> far;
    bool again = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      again = MayBeginAgain(status);
      if (!again) PassInitialMetadata();
      far = std::move(far_);
    }
    if (!again) {
      for (const auto& [key, value] :
           far->context().GetServerTrailingMetadata()) {
        // The status's details are in it.
        if (IsForwarded(absl::string_view(key.data(), key.size()))) {
          context_.AddTrailingMetadata(Text(key), Text(value));
        }
      }
    }
    // Without the lock, because this is called by a method of its own, and
    // before the call ends or goes on elsewhere. gRPC 1.51 aborts ("prior > 0")
    // when a thread that runs callbacks drops the last channel or server that
    // needs such threads; until the call ends, the server is one.
    far.reset();
    if (again) {
      not_before_ = SteadyNow() + kPause;
      return owner_.Hold(this);
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

  void OnCancel() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    // A call that is held has none; it ends when it is looked at.
    if (far_ != nullptr) far_->context().TryCancel();
  }
  void OnDone() override { delete this; }

  LeaderForwarder& owner_;
  grpc::GenericCallbackServerContext& context_;
  const std::string method_;
  const absl::Time give_up_;
  // Whoever has the call out of the owner's list alone uses it.
  absl::Time not_before_ = absl::InfinitePast();
  // One stream's after the other.
  grpc::ByteBuffer response_;

  std::mutex mutex_;
  std::unique_ptr<Far> far_ ABSL_GUARDED_BY(mutex_);
  // The caller's message that was read last, and the first one.
  grpc::ByteBuffer request_ ABSL_GUARDED_BY(mutex_);
  grpc::ByteBuffer first_ ABSL_GUARDED_BY(mutex_);
  // The number of messages read.
  int64_t read_ ABSL_GUARDED_BY(mutex_) = 0;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  // The caller sends no more.
  bool all_read_ ABSL_GUARDED_BY(mutex_) = false;
  // Something has been passed to the caller.
  bool answered_ ABSL_GUARDED_BY(mutex_) = false;
};

LeaderForwarder::LeaderForwarder(const Options& options,
                                 const LeaderHint* leader,
                                 const ForwardedCalls* forwarded,
                                 CatchUp catch_up, PostAfter post_after)
    : options_(options),
      leader_(leader),
      forwarded_(forwarded),
      catch_up_(std::move(catch_up)),
      post_after_(std::move(post_after)) {}

absl::StatusOr<std::shared_ptr<grpc::Channel>> LeaderForwarder::ChannelTo(
    const std::string& address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (channel_ != nullptr && address_ == address) return channel_;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  ASSIGN_OR_RETURN(channel_,
                   OpenChannel(address, options_.security, arguments));
  address_ = address;
  was_ready_ = false;
  failing_since_ = absl::InfiniteFuture();
  told_unknown_ = false;
  return channel_;
}

bool LeaderForwarder::IsReady(grpc::Channel* channel, absl::Duration* unknown) {
  const grpc_connectivity_state state = channel->GetState(true);
  const bool ready = state == GRPC_CHANNEL_READY;
  const absl::Time now = SteadyNow();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (channel != channel_.get()) return ready;
  if (ready) was_ready_ = true;
  if (was_ready_ || options_.security.ca_file != "system") return ready;
  if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) {
    failing_since_ = std::min(failing_since_, now);
  }
  *unknown = std::max(absl::ZeroDuration(), now - failing_since_);
  if (*unknown >= options_.patience && !std::exchange(told_unknown_, true)) {
    LOG(WARNING) << "event=callers_sent_to_leader leader=" << address_
                 << " text=\"no connection by the authorities of this system: "
                    "--coordinator_ca names those of the other coordinators\"";
  }
  return ready;
}

size_t LeaderForwarder::held() const {
  const std::lock_guard<std::mutex> lock(held_mutex_);
  return held_.size();
}

void LeaderForwarder::Hold(Call* call) {
  bool look = false;
  {
    const std::lock_guard<std::mutex> lock(held_mutex_);
    if (!stopped_ && held_.size() < options_.max_held) {
      held_.push_back(call);
      look = !std::exchange(looks_, true);
      call = nullptr;
    }
  }
  if (call != nullptr) return call->Refuse(NobodyLeads());
  if (look) post_after_(kLook, [this] { Poll(); });
}

bool LeaderForwarder::Settle(Call* call, absl::Time now) {
  if (call->cancelled()) {
    call->Refuse(absl::CancelledError("the caller has left"));
    return true;
  }
  const LeaderHint::Leader leader = leader_->Get();
  const bool late = now >= call->give_up();
  if (leader.address.empty()) {
    if (late) call->Refuse(NobodyLeads());
    return late;
  }
  if (!late && now < call->not_before()) return false;
  // A leader of an earlier version knows no calls that are passed on.
  if (leader.secret.empty()) {
    call->SendToLeader();
    return true;
  }
  const auto channel = ChannelTo(leader.address);
  if (!channel.ok()) {
    call->Refuse(channel.status());
    return true;
  }
  // Through a connection that is there, so that one that cannot be made is no
  // answer.
  absl::Duration unknown = absl::ZeroDuration();
  const bool ready = IsReady(channel->get(), &unknown);
  if (!ready &&
      (late ? unknown > absl::ZeroDuration() : unknown >= options_.patience)) {
    call->SendToLeader();
    return true;
  }
  if (late) {
    call->Refuse(absl::UnavailableError(
        absl::StrCat("the coordinator that leads, ", leader.address,
                     ", does not answer: ask again")));
    return true;
  }
  if (ready) call->PassOn(*channel, leader.secret);
  return ready;
}

void LeaderForwarder::Poll() {
  std::vector<Call*> calls;
  {
    const std::lock_guard<std::mutex> lock(held_mutex_);
    calls.swap(held_);
  }
  const absl::Time now = SteadyNow();
  calls.erase(std::remove_if(calls.begin(), calls.end(),
                             [&](Call* call) { return Settle(call, now); }),
              calls.end());
  bool look = false;
  {
    const std::lock_guard<std::mutex> lock(held_mutex_);
    if (!stopped_) {
      held_.insert(held_.end(), calls.begin(), calls.end());
      calls.clear();
    }
    look = looks_ = !held_.empty();
  }
  for (Call* call : calls) call->Refuse(NobodyLeads());
  if (look) post_after_(kLook, [this] { Poll(); });
}

void LeaderForwarder::Stop() {
  std::vector<Call*> calls;
  {
    const std::lock_guard<std::mutex> lock(held_mutex_);
    stopped_ = true;
    calls.swap(held_);
  }
  for (Call* call : calls) call->Refuse(NobodyLeads());
}

grpc::ServerGenericBidiReactor* LeaderForwarder::CreateReactor(
    grpc::GenericCallbackServerContext* context) {
  // Another follower believes that this one leads; it would go on in circles.
  if (ForwardedCalls::IsMarked(*context) &&
      !forwarded_->Find(*context).has_value()) {
    context->AddTrailingMetadata(kNoAnswerMetadata, kNotBegun);
    return new RejectedStream<grpc::ServerGenericBidiReactor>(NobodyLeads());
  }
  auto* const call = new Call(this, context);
  if (!Settle(call, SteadyNow())) Hold(call);
  return call;
}

}  // namespace comera::server
