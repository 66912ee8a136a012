// Tests that parsing an index of token shards takes no more memory than an
// honest one needs, whatever the text is.
#include <sys/resource.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/data/shards/shard_index.h"
#include "worker/trainer/data/shards/shard_layout.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMebibyte = 1 << 20;

// The most memory that this process had at any time.
int64_t PeakBytes() {
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

std::string Repeated(const std::string& piece, int64_t bytes) {
  std::string text;
  text.reserve(bytes + piece.size());
  while (static_cast<int64_t>(text.size()) < bytes) text += piece;
  return text;
}

constexpr char kHead[] = "{\"format\":\"comera-token-shards\",\"version\":1,";

TEST(IndexMemoryTest, HostileTextsTakeLittle) {
  constexpr int64_t kBytes = 9 * kMebibyte;
  for (const auto& [begin, piece] :
       {std::pair<const char*, const char*>{"\"shards\":[", "[],"},
        {"\"shards\":[", "{},"},
        {"\"label_counts\":[", "[],"},
        {"\"label_counts\":[", "0,"},
        {"\"unknown\":[", "[],"},
        {"\"unknown\":{", "\"a\":{},"},
        {"", "\"a\":0,"},
        {"\"made_from\":", "["}}) {
    const std::string text =
        absl::StrCat(kHead, begin, Repeated(piece, kBytes));
    const int64_t before = PeakBytes();
    EXPECT_THAT(
        ParseShardIndex(text, "folder/index.json"),
        StatusIs(absl::StatusCode::kDataLoss, HasSubstr("folder/index.json: ")))
        << begin << piece;
    // The largest vocabulary's counts take 32 MiB, and as much again while
    // they grow.
    EXPECT_LT(PeakBytes() - before, 80 * kMebibyte) << begin << piece;
  }
}

// A sixteenth of the largest index, to be quick.
TEST(IndexMemoryTest, AnHonestIndexOfTheLargestSizeFits) {
  constexpr int64_t kPart = 16;
  constexpr int64_t kShards = static_cast<int64_t>(kMaxShards) / kPart;
  ShardIndex index;
  index.made_from = index.sources = index.tokenizer_digest =
      std::string(64, 'a');
  index.vocabulary_size = ShardLayout::kMaxVocabulary / kPart;
  index.label_counts.assign(index.vocabulary_size, int64_t{1} << 20);
  ShardEntry entry;
  entry.sha256 = std::string(64, 'b');
  entry.documents = int64_t{1} << 26;
  entry.tokens =
      entry.documents + index.vocabulary_size * (int64_t{1} << 20) / kShards;
  entry.text_bytes = entry.size_bytes = int64_t{1} << 40;
  index.shards.assign(kShards, entry);
  index.documents = kShards * entry.documents;
  index.tokens = kShards * entry.tokens;
  index.text_bytes = kShards * entry.text_bytes;
  const std::string text = ShardIndexText(index);
  EXPECT_LE(static_cast<int64_t>(text.size()), kMaxShardIndexBytes / kPart);
  const auto read = ParseShardIndex(text, "index.json");
  ASSERT_OK(read);
  EXPECT_EQ(read->label_counts, index.label_counts);
  EXPECT_EQ(read->shards.size(), static_cast<size_t>(kShards));
  EXPECT_EQ(read->shards.back().sha256, entry.sha256);
  EXPECT_EQ(read->tokens, index.tokens);
}

}  // namespace
}  // namespace comera::trainer
