// Tests samples built from texts.
#include "worker/trainer/data/batch/sample_builder.h"

#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/data/batch/character_tokenizer.h"
#include "tests/worker/trainer/data/batch/list_corpus.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

absl::StatusOr<SampleSets> Build(std::vector<std::string> texts,
                                 bool segments = false,
                                 bool needs_ordinary = true) {
  CharacterTokenizer tokenizer(segments);
  return BuildSamples(ListCorpus(texts), 10, needs_ordinary, &tokenizer, {});
}

// Samples as text: "<" cls, ">" sep, "?" unk.
std::vector<std::string> Show(const SampleSet& set) {
  std::vector<std::string> shown;
  for (int64_t i = 0; i < set.size(); ++i) {
    Ids ids(set.length(i));
    set.CopyTokens(i, ids.data());
    std::string text;
    for (const int32_t id : ids) {
      text.push_back(id < 4 ? "_<>?"[id] : static_cast<char>(id));
    }
    shown.push_back(text);
  }
  return shown;
}

using Shown = std::vector<std::string>;

TEST(SampleBuilderTest, DocumentsBecomeWindows) {
  ASSERT_OK_AND_ASSIGN(const SampleSets sets,
                       Build({"abcdefghijklmnopqrs", "x", "", "12345678"}));
  EXPECT_EQ(Show(sets.train),
            Shown({"<abcdefgh>", "<ijklmnop>", "<qrs>", "<x>", "<12345678>"}));
  EXPECT_EQ(Show(sets.validation), Show(sets.train));
}

TEST(SampleBuilderTest, PairsWithSegments) {
  ASSERT_OK_AND_ASSIGN(const SampleSets sets,
                       Build({"ab|cd", "abcdefgh|12", "12|abcdefgh",
                              "abcdefgh|12345678", "a|", "|b"},
                             true));
  EXPECT_EQ(Show(sets.train), Shown({"<ab>cd>", "<abcde>12>", "<12>abcde>",
                                     "<abcd>123>", "<a>>", "<>b>"}));
  EXPECT_EQ(sets.train.second_start(0), 4);
  EXPECT_EQ(sets.train.second_start(1), 7);
  EXPECT_EQ(sets.train.label(0), 7);
}

TEST(SampleBuilderTest, PairsWithoutSegments) {
  ASSERT_OK_AND_ASSIGN(const SampleSets sets, Build({"ab|cd", "abcdefgh|12"}));
  EXPECT_EQ(Show(sets.train), Shown({"<ab>>cd>", "<abcd>>12>"}));
}

TEST(SampleBuilderTest, NothingToPredict) {
  ASSERT_OK_AND_ASSIGN(const SampleSets sets, Build({"??", "?|?", "a"}));
  EXPECT_EQ(Show(sets.train), Shown({"<a>"}));
  // A classifier keeps every row.
  ASSERT_OK_AND_ASSIGN(const SampleSets all, Build({"?|?", "|"}, true, false));
  EXPECT_EQ(Show(all.train), Shown({"<?>?>", "<>>"}));
}

TEST(SampleBuilderTest, EmptyCorpus) {
  for (const auto& texts : {Shown({}), Shown({""}), Shown({"", "??"})}) {
    EXPECT_THAT(Build(texts), StatusIs(absl::StatusCode::kDataLoss,
                                       HasSubstr("no training sample")));
  }
}

TEST(SampleSetTest, RoundTripNarrowAndWide) {
  for (const int32_t vocabulary : {100, 65536, 65537, 1 << 20}) {
    SampleSet set(vocabulary);
    ASSERT_OK(set.Add({0, vocabulary - 1, 5}, 2, 3));
    ASSERT_OK(set.Add({7}, 1, 0));
    std::string bytes;
    set.Serialize(&bytes);
    absl::string_view view = bytes;
    ASSERT_OK_AND_ASSIGN(const SampleSet parsed,
                         SampleSet::Parse(&view, vocabulary, 3));
    EXPECT_TRUE(view.empty());
    ASSERT_EQ(parsed.size(), 2);
    Ids ids(3);
    parsed.CopyTokens(0, ids.data());
    EXPECT_EQ(ids, Ids({0, vocabulary - 1, 5}));
    EXPECT_EQ(parsed.second_start(0), 2);
    EXPECT_EQ(parsed.label(0), 3);
    EXPECT_EQ(parsed.length(1), 1);
  }
}

TEST(SampleSetTest, ParseRefuses) {
  SampleSet set(100);
  ASSERT_OK(set.Add({0, 99, 5}, 2, 3));
  std::string good;
  set.Serialize(&good);
  const auto parse = [](absl::string_view bytes, int32_t vocabulary,
                        int32_t max_length) {
    return SampleSet::Parse(&bytes, vocabulary, max_length).status();
  };
  EXPECT_OK(parse(good, 100, 3));
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_THAT(parse(absl::string_view(good).substr(0, size), 100, 3),
                StatusIs(absl::StatusCode::kDataLoss));
  }
  EXPECT_THAT(parse(good, 99, 3), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(parse(good, 100, 2), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(parse(good, 1 << 20, 3), StatusIs(absl::StatusCode::kDataLoss));
  std::string huge = good;
  huge[7] = '\x7f';  // a count near 2^63
  EXPECT_THAT(parse(huge, 100, 3), StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace comera::trainer
