// Keeps an issuer's keys and fetches them again when that is due.
#include "server/auth/oidc/key_set_cache.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/http/web_fetch.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "common/steady_time.h"

namespace comera::server {
namespace {

// Names come from tokens that anybody may have written.
constexpr size_t kMaxWanted = 64;
constexpr size_t kMaxAbsent = 1024;

absl::Status NotYet() {
  return absl::UnavailableError(
      "the keys of the token's issuer are being fetched: try again");
}

}  // namespace

KeySetCache::Fetch KeySetCache::FetchFrom(const std::string& issuer) {
  return
      [issuer](const std::atomic<bool>& cancelled) -> absl::StatusOr<Fetched> {
        Fetched fetched;
        ASSIGN_OR_RETURN(fetched.provider, FetchProvider(issuer, &cancelled));
        WebRequest request;
        request.url = fetched.provider.keys_url;
        request.plain_http = fetched.provider.plain_http();
        request.cancelled = &cancelled;
        ASSIGN_OR_RETURN(const WebAnswer answer, FetchWeb(request));
        if (answer.code != 200) {
          return absl::UnavailableError(
              absl::StrCat("the issuer's keys: HTTP status ", answer.code));
        }
        ASSIGN_OR_RETURN(fetched.keys, ParseKeySet(answer.body));
        return fetched;
      };
}

KeySetCache::KeySetCache(const Options& options, Fetch fetch)
    : options_(options), fetch_(std::move(fetch)) {}

KeySetCache::~KeySetCache() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void KeySetCache::Start() {
  thread_ = std::thread([this] { Loop(); });
}

absl::StatusOr<std::shared_ptr<const VerificationKey>> KeySetCache::Find(
    const std::string& id, const std::string& algorithm, absl::Time now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (now - last_success_ > options_.keep) return NotYet();
  std::vector<std::shared_ptr<const VerificationKey>> fit;
  for (const auto& key : keys_) {
    if (key->Fits(algorithm) && (id.empty() || key->id() == id)) {
      fit.push_back(key);
    }
  }
  if (fit.size() == 1) return fit[0];
  if (id.empty() || fit.size() > 1) {
    return absl::UnauthenticatedError(
        "the token's header does not say which key of the issuer signed it "
        "(`kid`)");
  }
  const auto absent = absent_.find(id);
  if (absent != absent_.end() && now - absent->second < options_.min_interval) {
    return absl::UnauthenticatedError(
        "the token is signed with a key that its issuer does not have");
  }
  if (wanted_.size() < kMaxWanted && wanted_.insert(id).second) {
    wake_.notify_all();
  }
  return NotYet();
}

bool KeySetCache::Holds(const VerificationKey* key, absl::Time now) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return now - last_success_ <= options_.keep &&
         std::any_of(keys_.begin(), keys_.end(),
                     [key](const auto& one) { return one.get() == key; });
}

absl::StatusOr<OpenIdProvider> KeySetCache::provider() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!provider_) {
    return absl::UnavailableError(
        "the issuer of tokens has not answered yet: try again");
  }
  return *provider_;
}

bool KeySetCache::IsDue(absl::Time now) const {
  if (now - last_try_ < options_.min_interval) return false;
  return !wanted_.empty() || now - last_success_ >= options_.max_age;
}

bool KeySetCache::FetchIfDue(absl::Time now) {
  std::set<std::string> asked;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!IsDue(now)) return false;
    last_try_ = now;
    asked = wanted_;
  }
  absl::StatusOr<Fetched> fetched = fetch_(stop_);
  const std::lock_guard<std::mutex> lock(mutex_);
  Apply(std::move(fetched), asked, now);
  return true;
}

void KeySetCache::Apply(absl::StatusOr<Fetched> fetched,
                        const std::set<std::string>& asked, absl::Time now) {
  if (!fetched.ok()) {
    LOG_IF(WARNING, !failed_ && !stop_)
        << "event=issuer_keys_not_fetched issuer=" << options_.issuer
        << " status=\"" << fetched.status() << "\"";
    failed_ = true;
    return;
  }
  LOG_IF(INFO, failed_ || !provider_)
      << "event=issuer_keys_fetched issuer=" << options_.issuer
      << " keys=" << fetched->keys.size();
  failed_ = false;
  last_success_ = now;
  provider_ = std::move(fetched->provider);
  Keys keys;
  for (VerificationKey& key : fetched->keys) {
    const auto same =
        std::find_if(keys_.begin(), keys_.end(),
                     [&key](const auto& old) { return *old == key; });
    // The same object, so that what was verified with it holds on.
    keys.push_back(
        same != keys_.end()
            ? *same
            : std::make_shared<const VerificationKey>(std::move(key)));
  }
  keys_ = std::move(keys);
  if (absent_.size() > kMaxAbsent) absent_.clear();
  for (const std::string& id : asked) {
    wanted_.erase(id);
    absent_[id] = now;
  }
  for (const auto& key : keys_) absent_.erase(key->id());
}

void KeySetCache::Loop() {
  while (!stop_) {
    FetchIfDue(SteadyNow());
    std::unique_lock<std::mutex> lock(mutex_);
    const absl::Time now = SteadyNow();
    // When the next fetch may be due, asked for or not.
    absl::Time next =
        std::max(last_try_ + options_.min_interval,
                 wanted_.empty() ? last_success_ + options_.max_age : now);
    if (wanted_.empty() && failed_) next = last_try_ + options_.min_interval;
    wake_.wait_for(
        lock,
        absl::ToChronoMilliseconds(next - now) + std::chrono::milliseconds(1),
        [this, had = wanted_.size()] { return stop_ || wanted_.size() > had; });
  }
}

}  // namespace comera::server
