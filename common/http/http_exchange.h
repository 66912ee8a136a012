#ifndef COMERA_COMMON_HTTP_HTTP_EXCHANGE_H_
#define COMERA_COMMON_HTTP_HTTP_EXCHANGE_H_

#include <functional>
#include <memory>
#include <string>

#include "common/http/http_message.h"

namespace comera {

// One request and its answer: either Send(), or BeginStream(), any number of
// Write() and End(). Thread-safe; nothing blocks. An exchange that goes without
// an answer is answered with an error, one that goes within a stream breaks it.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual const HttpRequest& request() const = 0;
  // Drops the body of request(), so that it no longer counts against the bodies
  // that the server holds. Nobody may be reading it.
  virtual void DropBody() = 0;

  virtual void Send(HttpResponse response) = 0;

  // Sends the head. Without a header Content-Length the body is chunked.
  // `idle_text`, if not empty, is sent whenever there was nothing else to send
  // for a while.
  virtual void BeginStream(HttpResponse head, std::string idle_text) = 0;
  // Calls `done` once more may be written, with false when the peer is gone:
  // at once or later, on another thread. One at a time.
  virtual void Write(std::string part, std::function<void(bool ok)> done) = 0;
  virtual void End() = 0;

  // `gone` is called once if the peer goes before the answer has ended, at once
  // if it is gone. The last one counts; not called after the answer's end.
  virtual void OnDisconnect(std::function<void()> gone) = 0;
};

using HttpHandler = std::function<void(std::shared_ptr<HttpExchange>)>;

}  // namespace comera

#endif  // COMERA_COMMON_HTTP_HTTP_EXCHANGE_H_
