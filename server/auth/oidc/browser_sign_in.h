#ifndef COMERA_SERVER_AUTH_OIDC_BROWSER_SIGN_IN_H_
#define COMERA_SERVER_AUTH_OIDC_BROWSER_SIGN_IN_H_

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "server/auth/oidc/oidc_access.h"

namespace comera::server {

// Lets browsers sign in at an issuer, and keeps their sessions.
//
// An attempt to sign in is kept nowhere: all that it takes is in a cookie of
// the browser that begins it, sealed by this object, so that only this browser
// can end it, and attempts of strangers cost no memory. A session is a token of
// the issuer under a random name, in memory: it ends with the token, with
// sign-out, and when this coordinator restarts, and no other coordinator knows
// it.
//
// Thread-safe; nothing blocks but Stop(), and the destructor, which calls it.
class BrowserSignIn {
 public:
  // Where the browser goes, and the cookie that it must show when it comes
  // back.
  struct Attempt {
    std::string url;
    std::string cookie;
  };
  struct SignedIn {
    // Name of the session.
    std::string session;
    absl::Duration lifetime;
    // The path at which the attempt began.
    std::string return_to;
  };
  using Callback = std::function<void(absl::StatusOr<SignedIn>)>;

  // Attempts take at most so long.
  static constexpr absl::Duration kAttempt = absl::Minutes(10);

  // Both must outlive the object. `access` must have a client_id.
  BrowserSignIn(OidcAccess* access, Clock* clock);
  ~BrowserSignIn();

  // Ends the thread, within a second: every callback has come then, and later
  // attempts end at once. Unavailable is what they get.
  void Stop();

  // `return_to`: a path of this server. InvalidArgument: it leads elsewhere.
  // Unavailable: the issuer has not described itself yet.
  absl::StatusOr<Attempt> Begin(const std::string& redirect_uri,
                                const std::string& return_to) const;
  // `query`: what the issuer sent the browser back with. `peer`: the other end
  // of the connection, for which not many attempts may wait at once. An attempt
  // can be finished once. The callback comes later, on the object's thread, or
  // at once. InvalidArgument, PermissionDenied, Unauthenticated, Unavailable.
  void Finish(const std::string& cookie, const std::string& query,
              const std::string& peer, Callback done);

  // The token of a session; nothing: there is none of that name, or no longer.
  std::optional<std::string> FindToken(const std::string& session) const;
  void End(const std::string& session);

  const std::string& issuer() const { return access_->options().issuer; }

 private:
  struct Work {
    std::string cookie;
    std::string query;
    std::string peer;
    Callback done;
  };
  struct Session {
    std::string user;
    std::string token;
    absl::Time expiry;
  };

  void Loop();
  absl::StatusOr<SignedIn> Redeem(const std::string& cookie,
                                  const std::string& query);
  // Whether the attempt may wait; notes that it was finished. With mutex_ held.
  absl::Status Admit(const std::string& cookie, const std::string& peer);
  // Makes room among the sessions of a user and of all. With mutex_ held.
  void MakeRoom(const std::string& user);

  OidcAccess* const access_;
  Clock* const clock_;
  const std::string key_;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Work> queue_;                   // guarded by mutex_
  // Attempts that were finished, by their cookies' digests, oldest first, and
  // the digests alone.
  std::deque<std::string> finished_;         // guarded by mutex_
  std::set<std::string> finished_digests_;   // guarded by mutex_
  std::map<std::string, Session> sessions_;  // by digest; guarded by mutex_
  std::once_flag stopped_;
  std::thread thread_;
};

// Whether a browser that is sent to `path` stays on the server that sends it.
bool IsLocalPath(absl::string_view path);

}  // namespace comera::server

#endif  // COMERA_SERVER_AUTH_OIDC_BROWSER_SIGN_IN_H_
