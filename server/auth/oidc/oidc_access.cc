// Checks an issuer's tokens and says what they give to whom.
#include "server/auth/oidc/oidc_access.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/files.h"
#include "common/openid/json_web_token.h"
#include "common/openid/provider.h"
#include "common/status_macros.h"
#include "common/steady_time.h"
#include "proto/resource_names.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

constexpr char kNamePrefix[] = "oidc/";
constexpr char kUserPrefix[] = "oidc:";
constexpr size_t kMaxSubject = 128;
constexpr size_t kMaxGroups = 1000;
constexpr size_t kMaxKnown = 10000;
// The end of 9999, in seconds.
constexpr double kMaxSeconds = 253402300799;

absl::Status Bad(absl::string_view claim, absl::string_view expected) {
  return absl::UnauthenticatedError(
      absl::StrCat("the token's `", claim, "` ", expected));
}

// The names in a claim that is one text or a list of them; what is no text is
// left out.
std::set<std::string> TextsOf(const nlohmann::json& claims,
                              const std::string& name) {
  std::set<std::string> texts;
  const auto found = claims.find(name);
  if (found == claims.end()) return texts;
  if (found->is_string()) texts.insert(found->get<std::string>());
  if (!found->is_array()) return texts;
  for (const nlohmann::json& one : *found) {
    if (one.is_string() && texts.size() < kMaxGroups) {
      texts.insert(one.get<std::string>());
    }
  }
  return texts;
}

// A time in seconds since 1970; nothing: there is no such claim.
absl::StatusOr<std::optional<absl::Time>> TimeOf(const nlohmann::json& claims,
                                                 const char* name) {
  const auto found = claims.find(name);
  if (found == claims.end()) return std::optional<absl::Time>();
  const double seconds = found->is_number() ? found->get<double>() : -1;
  if (!std::isfinite(seconds) || seconds < 0 || seconds > kMaxSeconds) {
    return Bad(name, "must be a number of seconds since 1970");
  }
  return std::make_optional(
      absl::FromUnixMillis(static_cast<int64_t>(std::floor(seconds * 1000))));
}

std::string NameOf(absl::string_view secret) {
  return absl::StrCat(
      kNamePrefix,
      Sha256Hex(std::string_view(secret.data(), secret.size())).substr(0, 32));
}

}  // namespace

absl::StatusOr<GroupRole> ParseGroupRole(const std::string& text) {
  const size_t equals = text.rfind('=');
  GroupRole result;
  std::string role;
  if (equals != std::string::npos) {
    result.group = text.substr(0, equals);
    role = text.substr(equals + 1);
    const size_t colon = role.find(':');
    if (colon != std::string::npos) {
      result.queue = role.substr(0, colon);
      role = role.substr(colon + 1);
      if (!IsResourceId(result.queue)) result.group.clear();
    }
  }
  if (role == "viewer") result.role = v1::ROLE_VIEWER;
  if (role == "user") result.role = v1::ROLE_USER;
  if (role == "admin") result.role = v1::ROLE_ADMIN;
  if (result.group.empty() || result.role == v1::ROLE_UNSPECIFIED) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", text,
        "\" is no GROUP=[QUEUE:]ROLE, where the role is viewer, user or "
        "admin, e.g. research=fast:user"));
  }
  return result;
}

absl::Status OidcAccess::Check(const Options& options) {
  if (!options.enabled()) {
    if (options.audiences.empty() && options.client_id.empty() &&
        options.roles.empty()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "oidc_issuer: missing, although other flags of single sign-on are set");
  }
  const absl::Status issuer = CheckIssuer(options.issuer);
  if (!issuer.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("oidc_issuer: ", issuer.message()));
  }
  if (options.audiences.empty() && options.client_id.empty()) {
    return absl::InvalidArgumentError(
        "oidc_audience: missing: say for whom the issuer's tokens must be "
        "meant, or any application's token would open this server");
  }
  if (options.groups_claim.empty()) {
    return absl::InvalidArgumentError("oidc_groups_claim: must not be empty");
  }
  return absl::OkStatus();
}

OidcAccess::OidcAccess(const Options& options, KeySetCache* keys, Clock* clock)
    : options_(options), keys_(keys), clock_(clock) {}

bool OidcAccess::HasForm(absl::string_view secret) const {
  return LooksLikeJsonWebToken(secret);
}

bool OidcAccess::IsName(absl::string_view name) const {
  return absl::StartsWith(name, kNamePrefix);
}

absl::StatusOr<std::shared_ptr<const v1::Token>> OidcAccess::Verify(
    absl::string_view secret) {
  const std::string name = NameOf(secret);
  const absl::Time now = clock_->Now();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = known_.find(name);
    if (found != known_.end() && Holds(found->second, now)) {
      return found->second.token;
    }
  }
  ASSIGN_OR_RETURN(const JsonWebToken parsed, ParseJsonWebToken(secret));
  // First what costs nothing, and so that no stranger's token makes this server
  // ask the issuer for keys.
  ASSIGN_OR_RETURN(v1::Token token, Read(parsed.claims, now));
  ASSIGN_OR_RETURN(std::shared_ptr<const VerificationKey> key,
                   keys_->Find(parsed.key_id, parsed.algorithm, SteadyNow()));
  RETURN_IF_ERROR(key->Check(parsed));
  token.set_name(name);
  Known known = {std::make_shared<const v1::Token>(std::move(token)),
                 std::move(key)};
  auto result = known.token;
  Remember(std::move(known), now);
  return result;
}

absl::StatusOr<std::shared_ptr<const v1::Token>> OidcAccess::FindWorking(
    const std::string& name) const {
  const absl::Time now = clock_->Now();
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = known_.find(name);
  if (found == known_.end() || !Holds(found->second, now)) {
    return absl::UnauthenticatedError(
        "the token has expired, or its issuer has withdrawn its key");
  }
  return found->second.token;
}

bool OidcAccess::Holds(const Known& known, absl::Time now) const {
  return now < FromTimestamp(known.token->expire_time()) &&
         keys_->Holds(known.key.get(), SteadyNow());
}

absl::StatusOr<v1::Token> OidcAccess::Read(const nlohmann::json& claims,
                                           absl::Time now) const {
  const auto issuer = claims.find("iss");
  if (issuer == claims.end() || *issuer != options_.issuer) {
    return Bad("iss", absl::StrCat("must be ", options_.issuer));
  }
  RETURN_IF_ERROR(CheckAudience(claims));
  ASSIGN_OR_RETURN(const auto expiry, TimeOf(claims, "exp"));
  ASSIGN_OR_RETURN(const auto not_before, TimeOf(claims, "nbf"));
  ASSIGN_OR_RETURN(const auto made, TimeOf(claims, "iat"));
  if (!expiry) return Bad("exp", "is missing");
  if (now >= *expiry + kClockSkew) {
    return Bad("exp", "is past: sign in again (`comera login`)");
  }
  if ((not_before && now + kClockSkew < *not_before) ||
      (made && now + kClockSkew < *made)) {
    return Bad(made && now + kClockSkew < *made ? "iat" : "nbf",
               "lies in the future");
  }
  const auto subject = claims.find("sub");
  if (subject == claims.end() || !subject->is_string()) {
    return Bad("sub", "must be a text");
  }
  const std::string& user = subject->get_ref<const std::string&>();
  if (user.empty() || user.size() > kMaxSubject ||
      !std::all_of(user.begin(), user.end(),
                   [](unsigned char c) { return absl::ascii_isgraph(c); })) {
    return Bad("sub", absl::StrCat("must have 1 to ", kMaxSubject,
                                   " printable ASCII characters"));
  }
  v1::Token token;
  token.set_user(absl::StrCat(kUserPrefix, user));
  token.set_creator(options_.issuer);
  AddRoles(claims, &token);
  if (made) *token.mutable_create_time() = ToTimestamp(*made);
  *token.mutable_expire_time() = ToTimestamp(*expiry + kClockSkew);
  return token;
}

absl::Status OidcAccess::CheckAudience(const nlohmann::json& claims) const {
  const auto is_ours = [this](const std::string& one) {
    return !one.empty() &&
           (one == options_.client_id ||
            std::find(options_.audiences.begin(), options_.audiences.end(),
                      one) != options_.audiences.end());
  };
  const std::set<std::string> audiences = TextsOf(claims, "aud");
  if (std::none_of(audiences.begin(), audiences.end(), is_ours)) {
    return Bad("aud", "names no audience of this server (--oidc_audience)");
  }
  if (audiences.size() < 2) return absl::OkStatus();
  const std::set<std::string> party = TextsOf(claims, "azp");
  if (party.size() != 1 || !is_ours(*party.begin())) {
    return Bad("azp",
               "must be an audience of this server, because the token is for "
               "several");
  }
  return absl::OkStatus();
}

void OidcAccess::AddRoles(const nlohmann::json& claims,
                          v1::Token* token) const {
  const std::set<std::string> groups = TextsOf(claims, options_.groups_claim);
  for (const GroupRole& one : options_.roles) {
    if (groups.count(one.group) == 0) continue;
    if (one.queue.empty()) {
      token->set_role(std::max(token->role(), one.role));
    } else {
      v1::Role& role = (*token->mutable_queue_roles())[one.queue];
      role = std::max(role, one.role);
    }
  }
}

void OidcAccess::Remember(Known known, absl::Time now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (known_.size() >= kMaxKnown) {
    for (auto one = known_.begin(); one != known_.end();) {
      one = Holds(one->second, now) ? std::next(one) : known_.erase(one);
    }
  }
  // Tokens that go are verified again; their names are random.
  if (known_.size() >= kMaxKnown) known_.erase(known_.begin());
  known_[known.token->name()] = std::move(known);
}

}  // namespace comera::server
