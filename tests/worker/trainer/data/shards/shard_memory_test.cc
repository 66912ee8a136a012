// Tests that reading token shards takes little memory, however large they are.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "worker/trainer/data/batch/causal_data.h"
#include "worker/trainer/data/shards/shard_layout.h"
#include "worker/trainer/data/shards/shard_set.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {
namespace {

constexpr int64_t kMebibyte = 1 << 20;
constexpr int64_t kVocabulary = 1000;
constexpr int64_t kTokens = 140 * kMebibyte;
constexpr int64_t kDocumentTokens = 160;

// A vocabulary without words.
class NoTokenizer : public Tokenizer {
 public:
  void Encode(absl::string_view, std::vector<int32_t>*) override {}
  const SpecialTokens& special_tokens() const override { return special_; }
  int32_t vocabulary_size() const override { return kVocabulary; }
  bool has_segments() const override { return false; }
  const std::string& Token(int32_t) const override { return token_; }
  absl::Status Save(const std::string&) const override {
    return absl::OkStatus();
  }

 private:
  const SpecialTokens special_;
  const std::string token_;
};

// The most memory that this process had at any time.
int64_t PeakBytes() {
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

// Writes a shard whose tokens are all 0, a hole in the file, and returns its
// entry.
absl::StatusOr<ShardEntry> WriteHole(const std::string& path) {
  ShardLayout layout;
  layout.bytes_per_token = 2;
  layout.vocabulary_size = kVocabulary;
  layout.tokens = kTokens;
  layout.documents = kTokens / kDocumentTokens;
  layout.text_bytes = layout.documents;
  Sha256Stream digest;
  std::ofstream file(path, std::ios::binary);
  const auto add = [&](const std::string& bytes) {
    digest.Add(bytes);
    file << bytes;
  };
  const std::string zeros(kMebibyte, '\0');
  add(layout.Header());
  for (int64_t i = 0; i < 2 * kTokens; i += kMebibyte) digest.Add(zeros);
  file.seekp(layout.token_ends());
  std::string numbers;
  const auto append = [&](int64_t number) {
    AppendLittleEndian64(static_cast<uint64_t>(number), &numbers);
    if (numbers.size() < static_cast<size_t>(kMebibyte)) return;
    add(numbers);
    numbers.clear();
  };
  for (int64_t i = 1; i <= layout.documents; ++i) append(i * kDocumentTokens);
  for (int64_t i = 1; i <= layout.documents; ++i) append(i);
  append(layout.tokens - layout.documents);
  for (int64_t id = 1; id < kVocabulary; ++id) append(0);
  add(numbers);
  add(layout.Footer());
  file.close();
  if (!file) return absl::UnavailableError("the shard cannot be written");
  ShardEntry entry;
  entry.sha256 = digest.Finish();
  entry.size_bytes = layout.file_bytes();
  entry.documents = layout.documents;
  entry.tokens = layout.tokens;
  entry.text_bytes = layout.text_bytes;
  return entry;
}

TEST(ShardMemoryTest, ReadingTakesLessThan64Mebibytes) {
  const TempFolder folder;
  {
    const auto entry = WriteHole(folder / ShardFileName(0));
    ASSERT_OK(entry);
    ASSERT_GT(entry->size_bytes, 280 * kMebibyte);
    ShardIndex index;
    index.made_from = index.sources = index.tokenizer_digest =
        std::string(64, 'a');
    index.vocabulary_size = kVocabulary;
    index.documents = entry->documents;
    index.tokens = entry->tokens;
    index.text_bytes = entry->text_bytes;
    index.label_counts.assign(kVocabulary, 0);
    index.label_counts[0] = entry->tokens - entry->documents;
    index.shards = {*entry};
    folder.Write(kShardIndexFile, ShardIndexText(index));
  }
  const int64_t before = PeakBytes();
  FileCache none("", nullptr);
  auto set = ShardSet::Open(folder.path(), &none, {});
  ASSERT_OK(set);
  auto split = SplitShards(*set, kTokens / kDocumentTokens / 2);
  ASSERT_OK(split);
  DocumentParts parts;
  parts.train = split->first;
  parts.validation = split->last;
  CausalData::Options options;
  options.length = 512;
  const CausalData data(options, parts, std::make_shared<NoTokenizer>());
  // Rows all over the file.
  Batch batch;
  const int64_t batches = data.train_samples() / 64 / 2;
  for (int64_t step = 0; step < batches; ++step) {
    ASSERT_OK(data.TrainBatch(step, 64, 0, 1, &batch));
  }
  ASSERT_GT(batches * 64 * 512 * 2, 64 * kMebibyte);
  EXPECT_LT(PeakBytes() - before, 16 * kMebibyte);
}

}  // namespace
}  // namespace comera::trainer
