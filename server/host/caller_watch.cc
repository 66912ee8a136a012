// Implements CallerWatch with a timer that does not keep the stream.
#include "server/host/caller_watch.h"

#include <utility>

namespace comera::server {

CallerWatch::CallerWatch(EventLoop* loop, EventLoop* home,
                         std::function<absl::Status()> allowed,
                         std::function<void(const absl::Status&)> end)
    : state_(std::make_shared<State>(
          State{loop, home, std::move(allowed), std::move(end)})) {
  AskLater(state_);
}

void CallerWatch::AskLater(const std::shared_ptr<State>& state) {
  state->loop->PostAfter(kInterval, [weak = std::weak_ptr<State>(state)] {
    const std::shared_ptr<State> asked = weak.lock();
    if (asked == nullptr) return;
    const absl::Status status = asked->allowed();
    if (status.ok()) return AskLater(asked);
    asked->home->Post([weak, status] {
      if (const auto told = weak.lock()) told->end(status);
    });
  });
}

}  // namespace comera::server
