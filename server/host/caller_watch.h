#ifndef COMERA_SERVER_HOST_CALLER_WATCH_H_
#define COMERA_SERVER_HOST_CALLER_WATCH_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/runtime/event_loop.h"

namespace comera::server {

// Asks a few times a second whether the caller of a stream may still call, and
// tells the stream once that it may not. For streams that live on an event loop
// of their own (LoopStream asks by itself). To be made at any time, and
// destroyed on `home`.
class CallerWatch {
 public:
  // A token that is revoked or expires ends its streams within twice this.
  static constexpr absl::Duration kInterval = absl::Milliseconds(400);

  // `allowed` is asked on `loop`, and `end` runs on `home`; not after this is
  // destroyed. Both loops must outlive it.
  CallerWatch(EventLoop* loop, EventLoop* home,
              std::function<absl::Status()> allowed,
              std::function<void(const absl::Status&)> end);

 private:
  struct State {
    EventLoop* loop;
    EventLoop* home;
    std::function<absl::Status()> allowed;
    std::function<void(const absl::Status&)> end;
  };
  static void AskLater(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_HOST_CALLER_WATCH_H_
