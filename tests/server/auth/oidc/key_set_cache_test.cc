// Tests when an issuer's keys are fetched, and what callers hear meanwhile.
#include "server/auth/oidc/key_set_cache.h"

#include <memory>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "tests/server/auth/oidc/signing_key.h"

namespace comera::server {
namespace {

constexpr absl::StatusCode kLater = absl::StatusCode::kUnavailable;
constexpr absl::StatusCode kRefused = absl::StatusCode::kUnauthenticated;

class KeySetCacheTest : public ::testing::Test {
 protected:
  KeySetCacheTest() {
    cache_ = std::make_unique<KeySetCache>(
        KeySetCache::Options(),
        [this](const std::atomic<bool>&) { return Fetch(); });
  }

  absl::StatusOr<KeySetCache::Fetched> Fetch() {
    ++fetches_;
    if (on_fetch_) on_fetch_();
    if (!status_.ok()) return status_;
    KeySetCache::Fetched fetched;
    fetched.provider.issuer = "https://issuer";
    for (const SigningKey& key : keys_) {
      fetched.keys.push_back(*VerificationKey::Create(key.PublicJson()));
    }
    return fetched;
  }

  auto Find(const std::string& id, const std::string& algorithm = "ES256") {
    return cache_->Find(id, algorithm, now_);
  }
  // Whether a fetch was due.
  bool Turn() { return cache_->FetchIfDue(now_); }

  std::vector<SigningKey> keys_ = {SigningKey::Elliptic("one")};
  absl::Status status_;
  int fetches_ = 0;
  std::function<void()> on_fetch_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  std::unique_ptr<KeySetCache> cache_;
};

TEST_F(KeySetCacheTest, KeysComeWithTheFirstFetch) {
  EXPECT_THAT(Find("one"), StatusIs(kLater));
  EXPECT_THAT(cache_->provider(), StatusIs(kLater));
  EXPECT_TRUE(Turn());
  EXPECT_OK(Find("one"));
  EXPECT_OK(Find(""));
  EXPECT_THAT(Find("one", "RS256"), StatusIs(kLater));
  EXPECT_EQ(cache_->provider()->issuer, "https://issuer");
}

TEST_F(KeySetCacheTest, UnknownKeysMakeOneFetchInTenSeconds) {
  EXPECT_TRUE(Turn());
  for (int i = 0; i < 500; ++i) {
    EXPECT_THAT(Find(std::to_string(i)), StatusIs(kLater));
    EXPECT_FALSE(Turn());
    now_ += absl::Milliseconds(10);
  }
  EXPECT_EQ(fetches_, 1);
  now_ += absl::Seconds(6);
  EXPECT_TRUE(Turn());
  // The fetch has shown that there is no such key; later there may be one.
  EXPECT_THAT(Find("1"), StatusIs(kRefused));
  now_ += absl::Seconds(9);
  EXPECT_THAT(Find("1"), StatusIs(kRefused));
  EXPECT_FALSE(Turn());
  now_ += absl::Seconds(2);
  EXPECT_THAT(Find("1"), StatusIs(kLater));
  EXPECT_TRUE(Turn());
  EXPECT_EQ(fetches_, 3);
}

TEST_F(KeySetCacheTest, ARotatedKeyIsFoundAndTheOldOneGoes) {
  EXPECT_TRUE(Turn());
  ASSERT_OK_AND_ASSIGN(const auto old, Find("one"));
  keys_ = {SigningKey::Elliptic("two"), keys_[0]};
  now_ += absl::Seconds(20);
  EXPECT_THAT(Find("two"), StatusIs(kLater));
  EXPECT_TRUE(Turn());
  EXPECT_OK(Find("two"));
  // Two would fit.
  EXPECT_THAT(Find(""), StatusIs(kRefused));
  // The old one is the same object, so what it has verified holds on.
  EXPECT_TRUE(cache_->Holds(old.get(), now_));
  keys_.pop_back();
  now_ += absl::Minutes(9);
  EXPECT_FALSE(Turn());
  EXPECT_TRUE(cache_->Holds(old.get(), now_));
  now_ += absl::Minutes(1);
  EXPECT_TRUE(Turn());
  EXPECT_FALSE(cache_->Holds(old.get(), now_));
  EXPECT_THAT(Find("one"), StatusIs(kLater));
}

TEST_F(KeySetCacheTest, AKeyThatIsAskedForDuringAFetchIsNotRefusedByIt) {
  on_fetch_ = [this] { EXPECT_THAT(Find("two"), StatusIs(kLater)); };
  EXPECT_TRUE(Turn());
  on_fetch_ = nullptr;
  EXPECT_THAT(Find("two"), StatusIs(kLater));
  now_ += absl::Seconds(10);
  keys_.push_back(SigningKey::Elliptic("two"));
  EXPECT_TRUE(Turn());
  EXPECT_OK(Find("two"));
}

TEST_F(KeySetCacheTest, WhileTheIssuerIsAwayItsKeysServeForADay) {
  EXPECT_TRUE(Turn());
  status_ = absl::UnavailableError("away");
  now_ += absl::Minutes(10);
  EXPECT_TRUE(Turn());
  EXPECT_FALSE(Turn());
  EXPECT_OK(Find("one"));
  EXPECT_THAT(Find("two"), StatusIs(kLater));
  now_ += absl::Seconds(10);
  EXPECT_TRUE(Turn());
  // It was not shown to be absent.
  EXPECT_THAT(Find("two"), StatusIs(kLater));
  now_ += absl::Hours(23);
  EXPECT_OK(Find("one"));
  now_ += absl::Hours(1);
  EXPECT_THAT(Find("one"), StatusIs(kLater));
}

TEST_F(KeySetCacheTest, TheThreadFetchesAtOnceAndEnds) {
  std::atomic<bool> fetched{false};
  on_fetch_ = [&] { fetched = true; };
  cache_->Start();
  while (!fetched) std::this_thread::yield();
  cache_.reset();
}

}  // namespace
}  // namespace comera::server
