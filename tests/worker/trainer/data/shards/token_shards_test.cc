// Tests token shards: what is written is read, batches are those of memory, and
// damaged or lying files are refused.
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "worker/trainer/data/batch/causal_data.h"
#include "worker/trainer/data/batch/document_set.h"
#include "worker/trainer/data/random/counter_random.h"
#include "worker/trainer/data/shards/shard_file.h"
#include "worker/trainer/data/shards/shard_layout.h"
#include "worker/trainer/data/shards/shard_set.h"
#include "worker/trainer/data/shards/shard_set_writer.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using TokenLists = std::vector<std::vector<int32_t>>;

constexpr int64_t kVocabulary = 300;
constexpr uint64_t kSeed = 11;

// Documents of 1 to 40 random tokens.
TokenLists RandomDocuments(int count, int64_t vocabulary = kVocabulary) {
  TokenLists documents;
  for (int i = 0; i < count; ++i) {
    const auto words = RandomWords(kSeed, RandomStream::kFileOrder, i, 0);
    std::vector<int32_t> tokens(1 + words[0] % 40);
    for (size_t j = 0; j < tokens.size(); ++j) {
      tokens[j] = static_cast<int32_t>(
          RandomWords(kSeed, RandomStream::kFileOrder, i, j + 1)[1] %
          vocabulary);
    }
    documents.push_back(std::move(tokens));
  }
  return documents;
}

int64_t TextBytes(const std::vector<int32_t>& tokens) {
  return 3 * static_cast<int64_t>(tokens.size()) + 1;
}

DocumentSet InMemory(const TokenLists& documents, int64_t begin, int64_t end,
                     int64_t vocabulary = kVocabulary) {
  DocumentSet set(static_cast<int32_t>(vocabulary));
  for (int64_t i = begin; i < end; ++i) {
    EXPECT_OK(set.Add(documents[i], TextBytes(documents[i])));
  }
  return set;
}

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

class TokenShardsTest : public ::testing::Test {
 protected:
  absl::StatusOr<ShardIndex> Write(const TokenLists& documents,
                                   int64_t shard_tokens,
                                   int64_t vocabulary = kVocabulary) {
    ShardIndex index;
    index.made_from = index.sources = index.tokenizer_digest =
        std::string(64, 'a');
    index.vocabulary_size = vocabulary;
    ShardSetWriter writer(folder_.path(), index, shard_tokens);
    for (const std::vector<int32_t>& tokens : documents) {
      RETURN_IF_ERROR(writer.Add(tokens, TextBytes(tokens)));
      if (writer.shard_is_full()) RETURN_IF_ERROR(writer.FinishShard());
    }
    if (!writer.shard_is_empty()) RETURN_IF_ERROR(writer.FinishShard());
    RETURN_IF_ERROR(writer.Finish(0, 0));
    return writer.index();
  }
  absl::StatusOr<std::shared_ptr<const ShardSet>> Open() {
    FileCache none("", nullptr);
    return ShardSet::Open(folder_.path(), &none, {});
  }
  std::string Shard(int64_t i) { return folder_ / ShardFileName(i); }

  TempFolder folder_;
};

void ExpectEqual(const Batch& a, const Batch& b) {
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.segments, b.segments);
  EXPECT_EQ(a.mask, b.mask);
  EXPECT_EQ(a.label_rows, b.label_rows);
  EXPECT_EQ(a.labels, b.labels);
}

TEST_F(TokenShardsTest, DocumentsComeBack) {
  for (const int64_t vocabulary : {300, 65536, 65537, 200000}) {
    const TokenLists documents = RandomDocuments(700, vocabulary);
    const DocumentSet memory = InMemory(documents, 0, 700, vocabulary);
    const auto index = Write(documents, 1000, vocabulary);
    ASSERT_OK(index);
    EXPECT_GT(index->shards.size(), 10u);
    const auto set = Open();
    ASSERT_OK(set);
    const auto whole = WholeShards(*set);
    ASSERT_EQ(whole->documents(), 700);
    ASSERT_EQ(whole->tokens(), memory.tokens());
    EXPECT_EQ(whole->text_bytes(), memory.text_bytes());
    EXPECT_EQ(whole->LabelCounts(), memory.LabelCounts());
    std::vector<int32_t> tokens(memory.tokens()), expected(memory.tokens());
    ASSERT_OK(whole->CopyTokens(0, memory.tokens(), tokens.data()));
    ASSERT_OK(memory.CopyTokens(0, memory.tokens(), expected.data()));
    EXPECT_EQ(tokens, expected);
    std::vector<int64_t> ends, expected_ends;
    for (int64_t first = 0; first < memory.tokens(); first += 13) {
      const int64_t count =
          std::min<int64_t>(1 + first % 90, memory.tokens() - first);
      ASSERT_OK(whole->CopyEnds(first, count, &ends));
      ASSERT_OK(memory.CopyEnds(first, count, &expected_ends));
      ASSERT_EQ(ends, expected_ends) << first << " " << count;
    }
  }
}

TEST_F(TokenShardsTest, ShardsEndBehindTheDocumentThatFillsThem) {
  const auto index = Write({{1, 2}, {3, 4}, {5}, {6, 7, 8, 9, 10}, {11}}, 4);
  ASSERT_OK(index);
  ASSERT_EQ(index->shards.size(), 3u);
  EXPECT_EQ(index->shards[0].tokens, 4);
  EXPECT_EQ(index->shards[1].tokens, 6);
  EXPECT_EQ(index->shards[2].documents, 1);
  EXPECT_EQ(index->shards[2].text_bytes, 4);
}

TEST_F(TokenShardsTest, BatchesAreThoseOfMemory) {
  constexpr int64_t kDocuments = 500;
  const TokenLists documents = RandomDocuments(kDocuments);
  ASSERT_OK(Write(documents, 700));
  const auto set = Open();
  ASSERT_OK(set);
  for (const int64_t held_out : {1, 7, 250, 499}) {
    auto split = SplitShards(*set, held_out);
    ASSERT_OK(split);
    auto sets = std::make_shared<DocumentSets>();
    sets->train = InMemory(documents, 0, kDocuments - held_out);
    sets->validation = InMemory(documents, kDocuments - held_out, kDocuments);
    sets->test = InMemory(documents, 0, kDocuments);
    DocumentParts parts;
    parts.train = split->first;
    parts.validation = split->last;
    parts.test = WholeShards(*set);
    EXPECT_EQ(parts.train->LabelCounts(), sets->train.LabelCounts());
    EXPECT_EQ(parts.validation->LabelCounts(), sets->validation.LabelCounts());
    EXPECT_EQ(parts.train->text_bytes(), sets->train.text_bytes());
    EXPECT_EQ(parts.validation->text_bytes(), sets->validation.text_bytes());
    for (const int32_t length : {1, 8, 100, 3000}) {
      CausalData::Options options;
      options.length = length;
      options.seed = kSeed;
      const auto tokenizer = std::make_shared<NoTokenizer>();
      const CausalData mapped(options, parts, tokenizer);
      const CausalData memory(options, PartsOf(sets), tokenizer);
      ASSERT_EQ(mapped.train_samples(), memory.train_samples());
      ASSERT_EQ(mapped.validation_samples(), memory.validation_samples());
      ASSERT_EQ(mapped.test_samples(), memory.test_samples());
      EXPECT_EQ(mapped.validation_bytes_per_token(),
                memory.validation_bytes_per_token());
      if (held_out > 1) {
        EXPECT_EQ(mapped.baseline_loss(), memory.baseline_loss());
      }
      Batch a, b;
      for (const int64_t step : {0, 1, 57}) {
        for (const int rank : {0, 1}) {
          ASSERT_OK(mapped.TrainBatch(step, 12, rank, 2, &a));
          ASSERT_OK(memory.TrainBatch(step, 12, rank, 2, &b));
          ExpectEqual(a, b);
        }
      }
      ASSERT_OK(mapped.ValidationBatch(0, 1000, &a));
      ASSERT_OK(memory.ValidationBatch(0, 1000, &b));
      ExpectEqual(a, b);
      ASSERT_OK(mapped.TestBatch(0, 1000, &a));
      ASSERT_OK(memory.TestBatch(0, 1000, &b));
      ExpectEqual(a, b);
    }
  }
}

TEST_F(TokenShardsTest, ContentsThatWereCheckedAreNotReadAgain) {
  const TempFolder cache_folder;
  ASSERT_OK(Write(RandomDocuments(50), 200));
  std::vector<std::string> said;
  FileCache cache(cache_folder.path(), nullptr);
  const auto open = [&] {
    said.clear();
    return ShardSet::Open(folder_.path(), &cache,
                          [&](const std::string& what) {
                            if (what.find("checking") == 0)
                              said.push_back(what);
                          })
        .status();
  };
  ASSERT_OK(open());
  EXPECT_EQ(said.size(), 1u);
  ASSERT_OK(open());
  EXPECT_EQ(said.size(), 0u);
}

// Changes made to a good folder, and what is said of them.
class DamagedShardsTest : public TokenShardsTest {
 protected:
  DamagedShardsTest() { EXPECT_OK(Write(RandomDocuments(40), 300)); }

  void Expect(const std::string& message) {
    EXPECT_THAT(Open(),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(message)));
  }
  std::string Read(const std::string& path) { return *ReadFile(path); }
  void Put(const std::string& path, const std::string& contents) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << contents;
  }
  // Overwrites bytes of a shard, and makes the index agree with the result.
  void Overwrite(int64_t shard, int64_t offset, uint64_t value,
                 bool mend_digest = true) {
    std::string bytes = Read(Shard(shard));
    const std::string before = Sha256Hex(bytes);
    std::string number;
    AppendLittleEndian64(value, &number);
    bytes.replace(offset, 8, number);
    Put(Shard(shard), bytes);
    if (mend_digest) ReplaceInIndex(before, Sha256Hex(bytes));
  }
  void ReplaceInIndex(const std::string& from, const std::string& to) {
    std::string json = Read(folder_ / "index.json");
    const size_t at = json.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    Put(folder_ / "index.json", json.replace(at, from.size(), to));
  }
  ShardLayout Layout(int64_t shard) {
    const std::string bytes = Read(Shard(shard));
    const absl::string_view view = bytes;
    return *ShardLayout::Parse(
        view.substr(0, ShardLayout::kHeaderBytes),
        view.substr(view.size() - ShardLayout::kFooterBytes),
        static_cast<int64_t>(bytes.size()));
  }
};

TEST_F(DamagedShardsTest, Truncated) {
  const std::string bytes = Read(Shard(1));
  for (const size_t size : {size_t{0}, size_t{10}, bytes.size() / 2,
                            bytes.size() - 1, bytes.size() + 1}) {
    std::string changed = bytes;
    changed.resize(size, '\0');
    Put(Shard(1), changed);
    Expect("shard-000001.tokens: ");
  }
  // The index knows of it.
  std::string shorter = bytes.substr(0, 50);
  Put(Shard(1), shorter);
  ReplaceInIndex(absl::StrCat("\"size_bytes\":", bytes.size()),
                 "\"size_bytes\":50");
  Open().status().IgnoreError();
  EXPECT_FALSE(Open().ok());
}

TEST_F(DamagedShardsTest, Missing) {
  ASSERT_EQ(::remove(Shard(0).c_str()), 0);
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kNotFound,
                               HasSubstr("shard-000000.tokens")));
  ASSERT_EQ(::remove((folder_ / "index.json").c_str()), 0);
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kNotFound,
                               HasSubstr("comera data prepare")));
}

TEST_F(DamagedShardsTest, WrongDigest) {
  Overwrite(0, ShardLayout::kHeaderBytes, 0, /*mend_digest=*/false);
  Expect("shard-000000.tokens: its SHA-256 is not that of the index");
}

TEST_F(DamagedShardsTest, TokensOutsideTheVocabulary) {
  Overwrite(0, ShardLayout::kHeaderBytes, 0x012c);  // 300, 0, 0, 0
  Expect("shard-000000.tokens: token 300 is outside the vocabulary");
}

TEST_F(DamagedShardsTest, LyingCounts) {
  const ShardLayout layout = Layout(0);
  for (const int64_t offset :
       {layout.footer(), layout.footer() + 8, layout.footer() + 16}) {
    const std::string bytes = Read(Shard(0));
    const std::string index = Read(folder_ / "index.json");
    for (const uint64_t value : {uint64_t{0}, uint64_t{1}, ~uint64_t{0},
                                 uint64_t{1} << 62, uint64_t{1} << 39}) {
      Overwrite(0, offset, value);
      Expect("shard-000000.tokens: ");
      Put(Shard(0), bytes);
      Put(folder_ / "index.json", index);
    }
  }
  Overwrite(0, 16, uint64_t{1} << 61);  // the vocabulary
  Expect("shard-000000.tokens: impossible counts");
}

TEST_F(DamagedShardsTest, EndsThatDoNotRise) {
  const ShardLayout layout = Layout(0);
  const std::string bytes = Read(Shard(0));
  const std::string index = Read(folder_ / "index.json");
  const int64_t last = layout.token_ends() + 8 * (layout.documents - 1);
  const std::pair<int64_t, uint64_t> changes[] = {
      {layout.token_ends(), 0},
      {layout.token_ends() + 8, 1},
      {layout.token_ends(), ~uint64_t{0}},
      {layout.token_ends() + 8, uint64_t{1} << 63},
      {last, static_cast<uint64_t>(layout.tokens) + 1}};
  for (const auto& [offset, value] : changes) {
    Overwrite(0, offset, value);
    if (offset == layout.token_ends() + 8 && value == 1) {
      // The first document has more than one token.
      ASSERT_GT(LittleEndian64(&bytes[layout.token_ends()]), 1u);
    }
    Expect("shard-000000.tokens: document ");
    Put(Shard(0), bytes);
    Put(folder_ / "index.json", index);
  }
  Overwrite(0, layout.text_ends() + 8, 0);
  Expect("shard-000000.tokens: text ends fall");
}

TEST_F(DamagedShardsTest, BadIndices) {
  const std::string good = Read(folder_ / "index.json");
  const auto change = [&](const std::string& from, const std::string& to,
                          const std::string& message) {
    ReplaceInIndex(from, to);
    Expect(message);
    Put(folder_ / "index.json", good);
  };
  Put(folder_ / "index.json", "{");
  Expect("index.json: not an index");
  Put(folder_ / "index.json", good);
  change("\"version\":1", "\"version\":2", "another version");
  change("\"shard-000000.tokens\"", "\"../../secret\"",
         "shards: expected shard-000000.tokens");
  change("\"documents\":40", "\"documents\":41", "counts disagree");
  change("\"documents\":40", "\"documents\":-1", "documents: expected a count");
  change("\"vocabulary_size\":300", "\"vocabulary_size\":299", "label_counts");
  change("\"vocabulary_size\":300", "\"vocabulary_size\":1e9",
         "vocabulary_size: expected a count");
  change("\"label_counts\":[", "\"label_counts\":[1152921504606846976,",
         "label_counts");
  change("\"tokens\":", "\"tokens\":1152921504606846976,\"t\":",
         "counts disagree");
}

// Texts that an honest index never is.
TEST_F(DamagedShardsTest, HostileIndices) {
  const std::string good = Read(folder_ / "index.json");
  const auto change = [&](const std::string& from, const std::string& to,
                          const std::string& message) {
    ReplaceInIndex(from, to);
    Expect("index.json: " + message);
    Put(folder_ / "index.json", good);
  };
  change("\"documents\":40", "\"documents\":40,\"documents\":40",
         "documents: is there twice");
  change("\"sha256\":", "\"size_bytes\":1,\"sha256\":",
         "size_bytes: is there twice");
  change("\"documents\":40,", "", "documents: missing");
  change("\"sha256\":", "\"sha\":", "sha256: missing");
  change("\"sha256\":\"", "\"sha256\":\"x", "sha256: expected a digest");
  change("\"size_bytes\":", "\"size_bytes\":-", "size_bytes: expected a count");
  change("\"size_bytes\":", "\"size_bytes\":1e300,\"s\":",
         "size_bytes: expected a count");
  change("\"size_bytes\":", "\"size_bytes\":99999999999999999999,\"s\":",
         "size_bytes: expected a count");
  change("\"documents\":40", "\"documents\":1152921504606846977",
         "documents: expected a count");
  change("\"documents\":40", "\"documents\":[40]",
         "documents: expected a count");
  change("\"format\":\"comera-token-shards\"", "\"format\":{}",
         "format: expected a text");
  change("\"shards\":[", "\"shards\":[[],", "shards: expected objects");
  change("\"shards\":[", "\"shards\":[7,", "shards: expected objects");
  change("\"shards\":[", "\"shards\":7,\"s\":[",
         "shards: expected an array of objects");
  change("\"label_counts\":[", "\"label_counts\":[[],",
         "label_counts: expected counts");
  change("\"label_counts\":[", "\"label_counts\":[-1,",
         "label_counts: expected counts");
  change("\"label_counts\":[", "\"label_counts\":[0,",
         "label_counts: expected one per token");
  change("\"vocabulary_size\":300", "\"vocabulary_size\":4194305",
         "vocabulary_size: is not in 1 to 4194304");
  change("\"vocabulary_size\":300", "\"vocabulary_size\":0",
         "vocabulary_size: is not in 1 to 4194304");
  change(
      "\"version\":1",
      "\"version\":1,\"deep\":" + std::string(17, '[') + std::string(17, ']'),
      "nested too deeply");
  for (const std::string text : {"", "[]", "7", "null", "{}{}", "{\"a\":1}"}) {
    Put(folder_ / "index.json", text);
    Expect("index.json: not an index of token shards");
  }
  Put(folder_ / "index.json", good + "x");
  Expect("index.json: not an index of token shards: malformed JSON at byte " +
         std::to_string(good.size() + 1));
  // Members that this version does not know are passed over.
  Put(folder_ / "index.json", good);
  const std::string unknown =
      "\"new\":\"x\",\"list\":[[],{\"version\":2},7],\"object\":{\"tokens\":[]"
      ",\"shards\":{\"file\":null}},\"deep\":" +
      std::string(16, '[') + std::string(16, ']');
  ReplaceInIndex("\"version\":1", "\"version\":1," + unknown);
  ReplaceInIndex("\"size_bytes\"", unknown + ",\"size_bytes\"");
  EXPECT_OK(Open());
}

TEST_F(DamagedShardsTest, AnIndexLongerThanAnyHonestOneIsNotRead) {
  const std::string path = folder_ / "index.json";
  ASSERT_EQ(::truncate(path.c_str(), kMaxShardIndexBytes + 1), 0);
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("index.json: longer than")));
}

TEST_F(DamagedShardsTest, LabelCountsThatLie) {
  const auto index = ParseShardIndex(Read(folder_ / "index.json"), "");
  ASSERT_OK(index);
  ShardIndex lying = *index;
  ASSERT_GT(lying.label_counts[1], 0);
  ++lying.label_counts[0];
  --lying.label_counts[1];
  Put(folder_ / "index.json", ShardIndexText(lying));
  Expect("index.json: label_counts: not those of the shards");
  Put(folder_ / "index.json", ShardIndexText(*index));
  // The file says the same as the index, which its tokens do not.
  const ShardLayout layout = Layout(0);
  const std::string bytes = Read(Shard(0));
  int64_t id = 1;
  while (LittleEndian64(&bytes[layout.label_counts() + 8 * id]) == 0) ++id;
  for (const int64_t change : {-1, 1}) {
    const int64_t offset = layout.label_counts() + 8 * (change < 0 ? id : 0);
    Overwrite(0, offset, LittleEndian64(&bytes[offset]) + change);
  }
  Expect("shard-000000.tokens: label counts are not those of its tokens");
}

TEST_F(TokenShardsTest, AnIndexIsCheckedAnewWhenItsLabelCountsChange) {
  const TempFolder cache_folder;
  FileCache cache(cache_folder.path(), nullptr);
  auto index = Write(RandomDocuments(50), 200);
  ASSERT_OK(index);
  ASSERT_OK(ShardSet::Open(folder_.path(), &cache, {}));
  ASSERT_GT(index->label_counts[1], 0);
  ++index->label_counts[0];
  --index->label_counts[1];
  folder_.Write(kShardIndexFile, ShardIndexText(*index));
  EXPECT_THAT(ShardSet::Open(folder_.path(), &cache, {}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("label_counts")));
}

TEST_F(TokenShardsTest, NoMoreShardsAreWrittenThanAreRead) {
  ShardIndex index;
  index.vocabulary_size = kVocabulary;
  index.shards.resize(kMaxShards);
  ShardSetWriter writer(folder_.path(), index, 4);
  ASSERT_OK(writer.Add({1}, 1));
  EXPECT_THAT(writer.FinishShard(),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("65536 shards")));
}

// A file that changes behind the reader's back is noticed or read as it is, and
// never read beyond its end.
TEST_F(DamagedShardsTest, AFileThatShrinksIsNoticed) {
  const auto set = Open();
  ASSERT_OK(set);
  const auto whole = WholeShards(*set);
  Put(Shard(0), "short");
  std::vector<int32_t> tokens(whole->tokens());
  std::vector<int64_t> ends;
  EXPECT_THAT(whole->CopyTokens(0, whole->tokens(), tokens.data()),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("shard-000000.tokens: truncated")));
  EXPECT_THAT(whole->CopyEnds(0, 5, &ends),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("truncated")));
  CausalData::Options options;
  options.length = 16;
  DocumentParts parts;
  parts.train = parts.validation = whole;
  Batch batch;
  EXPECT_THAT(CausalData(options, parts, std::make_shared<NoTokenizer>())
                  .TrainBatch(0, 60, 0, 1, &batch),
              StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace comera::trainer
