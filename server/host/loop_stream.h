#ifndef COMERA_SERVER_HOST_LOOP_STREAM_H_
#define COMERA_SERVER_HOST_LOOP_STREAM_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "server/host/commit.h"
#include "server/host/coordinator_host.h"
#include "server/rpc/rpc_errors.h"
#include "server/rpc/stalled_call.h"

namespace comera::server {

// A server stream whose logic runs on the event loop: gRPC's reactions only
// post to it.
//
// Lives from Start() until gRPC is done with it and no closure holds it.
// Subclasses implement Begin() and Next(), both called on the loop, and call
// Write() and End() there. Next() is called when the stream may write: after
// Begin(), on Wake(), and after each write unless that was said to be the last
// for now: the loop is then not bothered with its end, which is what lets
// thousands of streams follow live events. End() may come at any time, once;
// later calls do nothing. The stream ends by itself soon after its caller may
// call no more, and, where that is asked for, when a write takes too long.
template <typename Response>
class LoopStream : public grpc::ServerWriteReactor<Response>,
                   public std::enable_shared_from_this<LoopStream<Response>> {
 public:
  // Hands `stream` to gRPC and to the loop.
  static grpc::ServerWriteReactor<Response>* Start(
      std::shared_ptr<LoopStream> stream) {
    LoopStream* raw = stream.get();
    raw->self_ = stream;
    raw->host_->loop().Post([stream = std::move(stream)] {
      if (stream->ended_) return;
      stream->Begin();
      stream->Wake();
      stream->CheckLater();
    });
    return raw;
  }

 protected:
  // Whether the caller may still call: any error ends the stream.
  using StillAllowed = std::function<absl::Status()>;

  LoopStream(CoordinatorHost* host, StillAllowed allowed)
      : host_(host), allowed_(std::move(allowed)) {}

  virtual void Begin() = 0;
  virtual void Next() = 0;
  // Releases what the stream has registered; on the loop, once.
  virtual void Close() {}

  void Wake() {
    if (ended_ || WriteIsUnderWay()) return;
    if (host_->stopping()) {
      return End(StoppingError());
    }
    Next();
  }

  // `more`: whether Next() is to be called when it is written.
  void Write(Response response, bool more = true) {
    if (ended_) return;
    response_ = std::move(response);
    if (context_ != nullptr) write_began_ = host_->now();
    write_ = more ? WriteState::kWanted : WriteState::kUnderWay;
    this->StartWrite(&response_);
  }

  void End(const absl::Status& status) {
    if (ended_) return;
    ended_ = true;
    Close();
    // A write in flight ends first.
    if (WriteIsUnderWay()) {
      final_ = ToRpcStatus(status);
    } else {
      this->Finish(ToRpcStatus(status));
    }
  }

  // From now on a write may take so long. `context`: that of the call. Before
  // Start().
  void LimitWrites(grpc::CallbackServerContext* context, absl::Duration limit) {
    context_ = context;
    write_limit_ = limit;
  }

  CoordinatorHost& host() { return *host_; }
  bool ended() const { return ended_; }

 private:
  enum class WriteState {
    kNone,
    // Ends without a word.
    kUnderWay,
    // The loop is to be told when it ends.
    kWanted,
    // It has ended, the loop is being told.
    kTelling,
  };

  // A token that is revoked or expires ends its streams within twice this.
  static constexpr absl::Duration kCheckInterval = absl::Milliseconds(400);

  // Goes on after the end until the last write has ended.
  void CheckLater() {
    host_->loop().PostAfter(kCheckInterval, [weak = this->weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      if (!self->ended_) {
        const absl::Status status = self->allowed_();
        if (!status.ok()) self->End(status);
      }
      if (self->write_ == WriteState::kNone && self->ended_) return;
      self->CheckWrite();
      self->CheckLater();
    });
  }

  void CheckWrite() {
    if (context_ == nullptr || write_ == WriteState::kNone) return;
    if (host_->now() - write_began_ < write_limit_) return;
    // The call is there, because only the loop finishes it, after the write.
    CancelStalled(context_, write_limit_);
    context_ = nullptr;
  }

  // On the loop. If so, OnWriteDone() posts to the loop.
  bool WriteIsUnderWay() {
    auto state = WriteState::kUnderWay;
    if (write_.compare_exchange_strong(state, WriteState::kWanted)) return true;
    return state != WriteState::kNone;
  }

  void OnWriteDone(bool ok) override {
    auto expected = WriteState::kUnderWay;
    if (ok && write_.compare_exchange_strong(expected, WriteState::kNone)) {
      return;
    }
    write_ = WriteState::kTelling;
    host_->loop().Post([self = this->shared_from_this(), ok] {
      self->write_ = WriteState::kNone;
      if (self->ended_) {
        if (self->final_) self->Finish(*self->final_);
      } else if (ok) {
        self->Wake();
      } else {
        self->End(absl::CancelledError("the reader is gone"));
      }
    });
  }

  void OnCancel() override {
    host_->loop().Post([self = this->shared_from_this()] {
      self->End(absl::CancelledError("the reader is gone"));
    });
  }

  // Destroyed on the loop, where its members lived.
  void OnDone() override {
    host_->loop().Post([self = std::move(self_)] {});
  }

  CoordinatorHost* const host_;
  const StillAllowed allowed_;
  std::shared_ptr<LoopStream> self_;
  Response response_;
  // Set by the loop when a write begins, else as said at its values.
  std::atomic<WriteState> write_{WriteState::kNone};
  bool ended_ = false;
  // Null: writes may take any time, or the call has been cancelled.
  grpc::CallbackServerContext* context_ = nullptr;
  absl::Duration write_limit_ = absl::InfiniteDuration();
  absl::Time write_began_;
  std::optional<grpc::Status> final_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_HOST_LOOP_STREAM_H_
