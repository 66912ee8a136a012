// Tests when a kept answer may be used.
#include "server/http/answer_cache.h"

#include "gtest/gtest.h"

namespace comera::server {
namespace {

std::shared_ptr<const Body> Text(const std::string& text) {
  return MakeBody("text/plain", text, false);
}

TEST(AnswerCacheTest, ServesUntilSomethingChangesOrTimePasses) {
  AnswerCache cache({});
  const absl::Time now = absl::UnixEpoch();
  EXPECT_EQ(cache.Find("a", 1, now), nullptr);
  const auto body = Text("x");
  cache.Put("a", 1, body, now);
  EXPECT_EQ(cache.Find("a", 1, now + absl::Milliseconds(500)), body);
  EXPECT_EQ(cache.Find("a", 1, now + absl::Milliseconds(501)), nullptr);
  EXPECT_EQ(cache.Find("a", 2, now), nullptr);
  EXPECT_EQ(cache.Find("b", 1, now), nullptr);
}

TEST(AnswerCacheTest, AnOlderAnswerDoesNotTakeANewerOnesPlace) {
  AnswerCache cache({});
  const absl::Time now = absl::UnixEpoch();
  const auto body = Text("new");
  cache.Put("a", 2, body, now);
  cache.Put("a", 1, Text("old"), now);
  EXPECT_EQ(cache.Find("a", 2, now), body);
}

TEST(AnswerCacheTest, KeepsLittle) {
  AnswerCache::Options options;
  options.max_bytes = 3000;
  options.max_answer_bytes = 1500;
  AnswerCache cache(options);
  const absl::Time now = absl::UnixEpoch();
  cache.Put("large", 1, Text(std::string(2000, 'x')), now);
  EXPECT_EQ(cache.Find("large", 1, now), nullptr);
  for (int i = 0; i < 10; ++i) {
    cache.Put(std::to_string(i), 1, Text(std::string(1000, 'x')), now);
    EXPECT_LE(cache.bytes(), 3000u);
  }
  EXPECT_NE(cache.Find("9", 1, now), nullptr);
  EXPECT_EQ(cache.Find("0", 1, now), nullptr);
  // An answer of another moment.
  cache.Put("later", 1, Text("x"), now + absl::Seconds(1));
  EXPECT_LT(cache.bytes(), 100u);
}

}  // namespace
}  // namespace comera::server
