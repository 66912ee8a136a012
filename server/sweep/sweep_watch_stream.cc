// Streams a sweep's state and then its events.
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/resource_names.h"
#include "server/host/loop_stream.h"
#include "server/sweep/sweep_service.h"

namespace comera::server {
namespace {

// Keeps only a place in the sweep's events: what a slow reader misses is gone
// from there too, and it gets the whole sweep instead.
class SweepWatchStream : public LoopStream<v1::WatchSweepResponse> {
 public:
  SweepWatchStream(SweepHost* sweeps, std::shared_ptr<const Caller> caller,
                   const v1::WatchSweepRequest& request)
      : LoopStream(&sweeps->host(), StillKnown(caller)),
        sweeps_(sweeps),
        caller_(std::move(caller)),
        request_(request) {}

 private:
  std::shared_ptr<SweepWatchStream> Self() {
    return std::static_pointer_cast<SweepWatchStream>(shared_from_this());
  }

  void Begin() override {
    if (!ParseSweepName(request_.name())) {
      return End(InvalidField("name", "must be sweeps/{sweep}"));
    }
    if (request_.after_sequence() < 0) {
      return End(InvalidField("after_sequence", "must not be negative"));
    }
    const v1::Sweep* sweep = sweeps_->engine().Find(request_.name());
    if (sweep == nullptr) {
      return End(absl::NotFoundError(absl::StrCat("no ", request_.name())));
    }
    const std::string& queue = sweep->spec().job().queue();
    const absl::Status status =
        caller_->Check(Permission::kView, queue.empty() ? "default" : queue);
    if (!status.ok()) return End(status);
    last_ = request_.after_sequence();
    const int64_t newest = sweeps_->engine().LastSequence(request_.name());
    // Before any event, or of an earlier life of the server.
    if (last_ == 0 || last_ > newest) last_ = newest;
    auto wake = [weak = std::weak_ptr(Self())] {
      if (auto self = weak.lock()) self->Wake();
    };
    stop_listener_ = host().AddListener("", wake);
    listener_ = sweeps_->AddListener(request_.name(), wake);
    sweep_is_due_ = true;
  }

  void Next() override {
    const v1::Sweep* sweep = sweeps_->engine().Find(request_.name());
    if (sweep == nullptr) {
      return End(
          absl::NotFoundError(absl::StrCat(request_.name(), " was deleted")));
    }
    if (sweep_is_due_) {
      sweep_is_due_ = false;
      v1::WatchSweepResponse response;
      *response.mutable_sweep() = *sweep;
      return Write(std::move(response));
    }
    if (pending_.empty() && !Fill()) {
      // What was missed is in the sweep as it is.
      last_ = sweeps_->engine().LastSequence(request_.name());
      sweep_is_due_ = true;
      return Next();
    }
    if (pending_.empty()) {
      if (IsFinal(sweep->state())) End(absl::OkStatus());
      return;
    }
    v1::WatchSweepResponse response;
    *response.mutable_event() = std::move(pending_.front());
    pending_.pop_front();
    last_ = response.event().sequence();
    Write(std::move(response));
  }

  // False: some events are gone.
  bool Fill() {
    auto events = sweeps_->engine().EventsAfter(request_.name(), last_);
    if (!events) return false;
    pending_.assign(std::make_move_iterator(events->begin()),
                    std::make_move_iterator(events->end()));
    return true;
  }

  void Close() override {
    if (listener_ != 0) sweeps_->RemoveListener(request_.name(), listener_);
    if (stop_listener_ != 0) host().RemoveListener("", stop_listener_);
  }

  SweepHost* const sweeps_;
  const std::shared_ptr<const Caller> caller_;
  const v1::WatchSweepRequest request_;
  std::deque<v1::SweepEvent> pending_;
  int64_t last_ = 0;
  bool sweep_is_due_ = false;
  int64_t listener_ = 0;
  int64_t stop_listener_ = 0;
};

}  // namespace

grpc::ServerWriteReactor<v1::WatchSweepResponse>* StartWatchSweep(
    SweepHost* sweeps, std::shared_ptr<const Caller> caller,
    const v1::WatchSweepRequest& request) {
  return SweepWatchStream::Start(
      std::make_shared<SweepWatchStream>(sweeps, std::move(caller), request));
}

}  // namespace comera::server
