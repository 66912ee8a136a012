// Sends browsers to the issuer, redeems what they come back with, and keeps
// their sessions.
#include "server/auth/oidc/browser_sign_in.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/json.h"
#include "common/openid/code_flow.h"
#include "common/openid/provider.h"
#include "common/seal.h"
#include "common/status_macros.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

constexpr char kPurpose[] = "sign-in";
constexpr size_t kMaxPath = 1024;
constexpr size_t kMaxQueue = 64;
constexpr int kMaxQueueOfPeer = 8;
// Older ones are forgotten: finishing them again costs one call of the issuer.
constexpr size_t kMaxFinished = 10000;
constexpr size_t kMaxSessions = 10000;
constexpr int kMaxSessionsOfUser = 20;
// No session lasts longer, whatever the token says.
constexpr absl::Duration kMaxSession = absl::Hours(12);

std::string Digest(const std::string& session) { return Sha256Hex(session); }

absl::Status Stopping() {
  return absl::UnavailableError("the server stops: begin again");
}

struct Sealed {
  CodeRequest request;
  std::string return_to;
};

// What the cookie of an attempt says; nothing: it is not this server's, or too
// old.
std::optional<Sealed> Open(const std::string& key, const std::string& cookie,
                           absl::Time now) {
  const auto text = Unseal(key, kPurpose, cookie);
  if (!text) return std::nullopt;
  const auto json = ParseJson(*text);
  if (!json.is_array() || json.size() != 6 ||
      absl::ToUnixSeconds(now) >= json[0].get<int64_t>()) {
    return std::nullopt;
  }
  Sealed sealed;
  sealed.request.redirect_uri = json[1].get<std::string>();
  sealed.request.state = json[2].get<std::string>();
  sealed.request.nonce = json[3].get<std::string>();
  sealed.request.verifier = json[4].get<std::string>();
  sealed.return_to = json[5].get<std::string>();
  return sealed;
}

}  // namespace

bool IsLocalPath(absl::string_view path) {
  // "//host" and "/\host" lead to another server.
  return path.size() <= kMaxPath && absl::StartsWith(path, "/") &&
         !absl::StartsWith(path, "//") && path.find('\\') == path.npos &&
         std::all_of(path.begin(), path.end(),
                     [](unsigned char c) { return absl::ascii_isgraph(c); });
}

BrowserSignIn::BrowserSignIn(OidcAccess* access, Clock* clock)
    : access_(access),
      clock_(clock),
      key_(RandomText()),
      thread_([this] { Loop(); }) {}

BrowserSignIn::~BrowserSignIn() { Stop(); }

void BrowserSignIn::Stop() {
  std::call_once(stopped_, [this] {
    std::deque<Work> left;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
      left.swap(queue_);
    }
    wake_.notify_all();
    thread_.join();
    for (Work& work : left) work.done(Stopping());
  });
}

absl::StatusOr<BrowserSignIn::Attempt> BrowserSignIn::Begin(
    const std::string& redirect_uri, const std::string& return_to) const {
  if (!IsLocalPath(return_to)) {
    return absl::InvalidArgumentError(
        "return: must be a path of this server, e.g. /jobs");
  }
  ASSIGN_OR_RETURN(const OpenIdProvider provider, access_->keys()->provider());
  const CodeRequest request =
      NewCodeRequest(access_->options().client_id, redirect_uri);
  const nlohmann::json sealed = {absl::ToUnixSeconds(clock_->Now() + kAttempt),
                                 request.redirect_uri,
                                 request.state,
                                 request.nonce,
                                 request.verifier,
                                 return_to};
  return Attempt{AuthorizationUrl(provider, request),
                 Seal(key_, kPurpose, JsonText(sealed))};
}

void BrowserSignIn::Finish(const std::string& cookie, const std::string& query,
                           const std::string& peer, Callback done) {
  // Strangers have no such cookie, or one for each of their attempts.
  if (!Open(key_, cookie, clock_->Now())) {
    return done(absl::InvalidArgumentError(
        "state: this browser has begun no attempt to sign in here within the "
        "last ten minutes: begin again"));
  }
  absl::Status admitted;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    admitted = Admit(cookie, peer);
    if (admitted.ok()) {
      queue_.push_back({cookie, query, peer, std::move(done)});
      wake_.notify_all();
      return;
    }
  }
  done(admitted);
}

absl::Status BrowserSignIn::Admit(const std::string& cookie,
                                  const std::string& peer) {
  if (stop_) return Stopping();
  const auto of_peer =
      std::count_if(queue_.begin(), queue_.end(),
                    [&peer](const Work& work) { return work.peer == peer; });
  if (queue_.size() >= kMaxQueue || of_peer >= kMaxQueueOfPeer) {
    return absl::UnavailableError("too many sign in at once: try again");
  }
  const std::string digest = Digest(cookie);
  if (!finished_digests_.insert(digest).second) {
    return absl::InvalidArgumentError(
        "state: this attempt to sign in was finished before: begin again");
  }
  finished_.push_back(digest);
  if (finished_.size() > kMaxFinished) {
    finished_digests_.erase(finished_.front());
    finished_.pop_front();
  }
  return absl::OkStatus();
}

std::optional<std::string> BrowserSignIn::FindToken(
    const std::string& session) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = sessions_.find(Digest(session));
  if (found == sessions_.end() || clock_->Now() >= found->second.expiry) {
    return std::nullopt;
  }
  return found->second.token;
}

void BrowserSignIn::End(const std::string& session) {
  const std::lock_guard<std::mutex> lock(mutex_);
  sessions_.erase(Digest(session));
}

void BrowserSignIn::Loop() {
  while (true) {
    Work work;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work.done(Redeem(work.cookie, work.query));
  }
}

absl::StatusOr<BrowserSignIn::SignedIn> BrowserSignIn::Redeem(
    const std::string& cookie, const std::string& query) {
  auto sealed = Open(key_, cookie, clock_->Now());
  if (!sealed) return absl::InvalidArgumentError("state: too old: begin again");
  sealed->request.client_id = access_->options().client_id;
  ASSIGN_OR_RETURN(const OpenIdProvider provider, access_->keys()->provider());
  ASSIGN_OR_RETURN(const std::string code,
                   ReadCallback(provider, sealed->request, query));
  ASSIGN_OR_RETURN(const OpenIdTokens tokens,
                   RedeemCode(provider, sealed->request, code, &stop_));
  // Checks signature, audience and time, as of any caller.
  ASSIGN_OR_RETURN(const auto token, access_->Verify(tokens.id_token));
  const absl::Time now = clock_->Now();
  const absl::Time expiry =
      std::min(FromTimestamp(token->expire_time()), now + kMaxSession);
  SignedIn result;
  result.session = absl::StrCat("sso_", Sha256Hex(RandomText()));
  result.lifetime = expiry - now;
  result.return_to = sealed->return_to;
  const std::lock_guard<std::mutex> lock(mutex_);
  MakeRoom(token->user());
  sessions_[Digest(result.session)] = {token->user(), tokens.id_token, expiry};
  return result;
}

void BrowserSignIn::MakeRoom(const std::string& user) {
  const absl::Time now = clock_->Now();
  int of_user = 0;
  auto oldest = sessions_.end();
  for (auto one = sessions_.begin(); one != sessions_.end();) {
    if (now >= one->second.expiry) {
      one = sessions_.erase(one);
      continue;
    }
    if (one->second.user == user) {
      ++of_user;
      if (oldest == sessions_.end() ||
          one->second.expiry < oldest->second.expiry) {
        oldest = one;
      }
    }
    ++one;
  }
  if (of_user >= kMaxSessionsOfUser) sessions_.erase(oldest);
  if (sessions_.size() >= kMaxSessions) sessions_.erase(sessions_.begin());
}

}  // namespace comera::server
