#ifndef COMERA_WORKER_COMPLETIONS_EVENT_STREAM_H_
#define COMERA_WORKER_COMPLETIONS_EVENT_STREAM_H_

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/http/http_exchange.h"

namespace comera::worker {

// How long a stream of events is silent before a word goes out that readers
// ignore.
constexpr absl::Duration kSilence = absl::Seconds(5);

// Server-sent events as the answer to a request.
//
// Not thread-safe.
class EventStream {
 public:
  // Soon after `deadline` the reader counts as gone, however slowly it reads.
  // `exchange` must outlive it; one that is dropped before End() tells the
  // reader that the stream has broken.
  EventStream(HttpExchange* exchange, absl::Time deadline);

  // Waits until the event is on its way. Returns false once the reader has
  // gone.
  bool Send(absl::string_view data);
  // Begins the stream if nothing was said for a while; returns false once the
  // reader has gone. A stream that has begun keeps itself alive.
  bool KeepAlive();
  // Whether the answer's status has been sent.
  bool begun() const { return begun_; }
  // Ends the stream, unless the reader has gone.
  void End();

 private:
  void Begin();

  HttpExchange* const exchange_;
  const absl::Time deadline_;
  const absl::Time begin_at_;
  bool begun_ = false;
  bool broken_ = false;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_COMPLETIONS_EVENT_STREAM_H_
