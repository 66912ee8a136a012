#ifndef COMERA_SERVER_AUTH_OIDC_KEY_SET_CACHE_H_
#define COMERA_SERVER_AUTH_OIDC_KEY_SET_CACHE_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/openid/provider.h"
#include "server/auth/oidc/verification_key.h"

namespace comera::server {

// The keys of an issuer: fetched, kept, and fetched again when a token names
// one that is not there.
//
// Times are those of a clock that only rises, so that a change of the wall
// clock neither stops nor hastens a fetch. Thread-safe; Find() does not block.
class KeySetCache {
 public:
  struct Options {
    std::string issuer;
    // Between two fetches, whatever tokens name.
    absl::Duration min_interval = absl::Seconds(10);
    // After this the keys are fetched again although nobody asks, so that a key
    // that the issuer has withdrawn goes.
    absl::Duration max_age = absl::Minutes(10);
    // Keys that could not be fetched again for so long serve no longer.
    absl::Duration keep = absl::Hours(24);
  };
  // What one fetch brings.
  struct Fetched {
    OpenIdProvider provider;
    std::vector<VerificationKey> keys;
  };
  using Fetch = std::function<absl::StatusOr<Fetched>(
      const std::atomic<bool>& cancelled)>;

  // Returns the fetch of an issuer's description and keys over the network.
  static Fetch FetchFrom(const std::string& issuer);

  KeySetCache(const Options& options, Fetch fetch);
  // Ends the thread, within a second.
  ~KeySetCache();

  // Fetches from now on, on a thread of its own, at once and whenever it is
  // due.
  void Start();

  // The key of this name that signs by this algorithm; `id` empty: the only one
  // that does. Unavailable: nothing was fetched yet, or a fetch that may bring
  // the key is under way or has to wait. Unauthenticated: a fetch that began
  // after the key was first asked for did not bring it.
  absl::StatusOr<std::shared_ptr<const VerificationKey>> Find(
      const std::string& id, const std::string& algorithm, absl::Time now);

  // The issuer's description. Unavailable: it was not fetched yet.
  absl::StatusOr<OpenIdProvider> provider() const;

  // Whether the issuer still has this key, which Find() returned.
  bool Holds(const VerificationKey* key, absl::Time now) const;

  // One turn of the thread, for tests: fetches if a fetch is due at `now`.
  // Returns whether it did.
  bool FetchIfDue(absl::Time now);

 private:
  using Keys = std::vector<std::shared_ptr<const VerificationKey>>;

  // Both with mutex_ held.
  bool IsDue(absl::Time now) const;
  void Apply(absl::StatusOr<Fetched> fetched,
             const std::set<std::string>& asked, absl::Time now);

  void Loop();

  const Options options_;
  const Fetch fetch_;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  // All guarded by mutex_.
  std::optional<OpenIdProvider> provider_;
  Keys keys_;
  absl::Time last_try_ = absl::InfinitePast();
  absl::Time last_success_ = absl::InfinitePast();
  // Keys that the next fetch may bring.
  std::set<std::string> wanted_;
  // Keys that a fetch did not bring, and when.
  std::map<std::string, absl::Time> absent_;
  bool failed_ = false;
  std::thread thread_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_AUTH_OIDC_KEY_SET_CACHE_H_
