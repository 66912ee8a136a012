#ifndef COMERA_CLIENT_CLI_SESSION_REDIRECT_LISTENER_H_
#define COMERA_CLIENT_CLI_SESSION_REDIRECT_LISTENER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace comera::client {

// A port of 127.0.0.1 to which an issuer sends a browser back. It answers one
// connection at a time, and nothing but that one request.
class RedirectListener {
 public:
  // Errors of ErrnoStatus.
  static absl::StatusOr<std::unique_ptr<RedirectListener>> Open();
  ~RedirectListener();
  RedirectListener(const RedirectListener&) = delete;
  RedirectListener& operator=(const RedirectListener&) = delete;

  // Where browsers are to be sent.
  std::string uri() const;

  // Passes queries that come with a browser to `take`, and tells the browser
  // how that went, until it returns another status than InvalidArgument; that
  // is the result. DeadlineExceeded.
  absl::Status Await(
      const std::function<absl::Status(const std::string& query)>& take,
      absl::Time deadline);

 private:
  RedirectListener(int socket, int port) : socket_(socket), port_(port) {}

  const int socket_;
  const int port_;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SESSION_REDIRECT_LISTENER_H_
