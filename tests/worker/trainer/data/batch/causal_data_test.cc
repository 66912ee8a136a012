// Tests the rows and labels that causal language models are trained on.
#include "worker/trainer/data/batch/causal_data.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/data/batch/character_tokenizer.h"
#include "tests/worker/trainer/data/batch/list_corpus.h"
#include "worker/trainer/data/batch/document_builder.h"
#include "worker/trainer/data/random/permutation.h"

namespace comera::trainer {
namespace {

using Rows = std::vector<std::string>;
using Texts = std::vector<std::string>;

constexpr uint64_t kSeed = 5;

std::unique_ptr<CausalData> Open(const Texts& texts, int32_t length,
                                 const Texts& test = {},
                                 std::optional<int32_t> end_of_text = {}) {
  auto tokenizer = std::make_shared<CharacterTokenizer>(false, end_of_text);
  auto sets = BuildDocuments(ListCorpus(texts, test), tokenizer.get(), {});
  EXPECT_OK(sets);
  CausalData::Options options;
  options.length = length;
  options.seed = kSeed;
  return std::make_unique<CausalData>(
      options, PartsOf(std::make_shared<const DocumentSets>(*std::move(sets))),
      std::move(tokenizer));
}

char Character(int32_t id) {
  return id == 2 ? '>' : id == 0 ? '_' : static_cast<char>(id);
}

// A row of a batch: its tokens, their segments and their labels, "." being none
// and "_" padding.
std::string Show(const Batch& batch, int64_t row) {
  std::string labels(batch.length, '.');
  for (size_t i = 0; i < batch.label_rows.size(); ++i) {
    if (batch.label_rows[i] / batch.length != row) continue;
    labels[batch.label_rows[i] % batch.length] = Character(batch.labels[i]);
  }
  std::string tokens, segments;
  for (int64_t i = row * batch.length; i < (row + 1) * batch.length; ++i) {
    const bool padding = batch.mask[i] == 0;
    EXPECT_EQ(padding, batch.ids[i] == 0);
    tokens.push_back(Character(batch.ids[i]));
    segments.push_back(padding ? '_'
                               : static_cast<char>('0' + batch.segments[i]));
    if (padding) {
      EXPECT_EQ(batch.segments[i], 0);
    }
  }
  return absl::StrCat(tokens, " ", segments, " ", labels);
}

// All rows of the validation set, which is the training set too, in the order
// of the text.
Rows InOrder(const CausalData& data) {
  const int64_t n = data.validation_samples();
  Batch batch;
  EXPECT_OK(data.ValidationBatch(0, n, &batch));
  EXPECT_EQ(batch.size, n);
  EXPECT_EQ(batch.labels.size(), batch.label_rows.size());
  Rows rows(n);
  for (int64_t i = 0; i < n; ++i) {
    rows[PermutedIndex(kSeed, RandomStream::kValidationOrder, 0,
                       static_cast<uint64_t>(n), static_cast<uint64_t>(i))] =
        Show(batch, i);
  }
  return rows;
}

TEST(CausalDataTest, TokensAreCountedAsLabels) {
  const std::vector<int64_t> counts = Open({"abcab", "ab"}, 4)->TokenCounts();
  EXPECT_EQ(counts['a'], 1);
  EXPECT_EQ(counts['b'], 3);
  EXPECT_EQ(counts['c'], 1);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), 5);
}

TEST(CausalDataTest, ALongDocumentGoesOnInTheNextRow) {
  EXPECT_EQ(InOrder(*Open({"abcdefghijklmn"}, 4)),
            Rows({"abcd 0000 bcde", "efgh 0000 fghi", "ijkl 0000 jklm",
                  "mn__ 00__ n..."}));
}

TEST(CausalDataTest, ShortDocumentsShareRows) {
  EXPECT_EQ(InOrder(*Open({"abc", "", "d", "efghi", "j"}, 4)),
            Rows({"abcd 0001 bc..", "efgh 0000 fghi", "ij__ 01__ ...."}));
  // Documents that end with a row.
  EXPECT_EQ(InOrder(*Open({"abcd", "ef", "gh"}, 4)),
            Rows({"abcd 0000 bcd.", "efgh 0011 f.h."}));
}

TEST(CausalDataTest, TheEndOfATextIsPredicted) {
  EXPECT_EQ(InOrder(*Open({"abc", "d", "efg"}, 4, {}, 2)),
            Rows({"abc> 0000 bc>.", "d>ef 0011 >.fg", "g>__ 00__ >..."}));
}

TEST(CausalDataTest, DocumentsOfOneTokenHaveNoLabels) {
  EXPECT_EQ(InOrder(*Open({"a", "b", "c", "d", "e", "fg"}, 4)),
            Rows({"abcd 0123 ....", "efg_ 011_ .g.."}));
}

TEST(CausalDataTest, OneShortRow) {
  EXPECT_EQ(InOrder(*Open({"ab"}, 8)), Rows({"ab______ 00______ b......."}));
}

TEST(CausalDataTest, RowsOfOneToken) {
  EXPECT_EQ(InOrder(*Open({"ab", "c"}, 1)), Rows({"a 0 b", "b 0 .", "c 0 ."}));
}

// Documents of 0 to 40 tokens, no two tokens side by side alike.
Texts ManyDocuments() {
  Texts texts;
  for (int i = 0; i < 50; ++i) {
    texts.emplace_back();
    for (int j = 0; j < i * 7 % 41; ++j) {
      texts.back().push_back(static_cast<char>('A' + (3 * i + j * j) % 50));
    }
  }
  return texts;
}

// The tokens of documents and which of them follow which: how often each pair
// of neighbours occurs.
using Pairs = std::map<std::pair<int32_t, int32_t>, int>;

Pairs PairsOf(const Batch& batch) {
  Pairs pairs;
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    ++pairs[{batch.ids[batch.label_rows[i]], batch.labels[i]}];
  }
  return pairs;
}

TEST(CausalDataTest, EveryEpochPredictsEveryTokenOnce) {
  Pairs expected;
  int64_t tokens = 0;
  for (const std::string& text : ManyDocuments()) {
    tokens += static_cast<int64_t>(text.size());
    for (size_t i = 1; i < text.size(); ++i) ++expected[{text[i - 1], text[i]}];
  }
  for (const int32_t length : {1, 7, 16, 100, 5000}) {
    const auto data = Open(ManyDocuments(), length);
    const int64_t n = data->train_samples();
    ASSERT_EQ(n, (tokens + length - 1) / length);
    for (const int64_t step : {0, 1}) {
      Batch batch;
      ASSERT_OK(data->TrainBatch(step, n, 0, 1, &batch));
      EXPECT_EQ(PairsOf(batch), expected);
      EXPECT_EQ(std::count(batch.mask.begin(), batch.mask.end(), 1.0f), tokens);
    }
  }
}

TEST(CausalDataTest, EpochsAreShuffledAnew) {
  const auto data = Open(ManyDocuments(), 16);
  const int64_t n = data->train_samples();
  Batch first, second;
  ASSERT_OK(data->TrainBatch(0, n, 0, 1, &first));
  ASSERT_OK(data->TrainBatch(1, n, 0, 1, &second));
  EXPECT_NE(first.ids, second.ids);
  // The order is that of the samples of other families.
  for (int64_t i = 0; i < n; ++i) {
    const auto row = static_cast<int64_t>(
        PermutedIndex(kSeed, RandomStream::kEpochOrder, 1,
                      static_cast<uint64_t>(n), static_cast<uint64_t>(i)));
    Batch one;
    ASSERT_OK(data->TrainBatch(n + i, 1, 0, 1, &one));
    EXPECT_EQ(Show(one, 0), Show(second, i));
    EXPECT_EQ(Show(one, 0), InOrder(*data)[row]);
  }
}

TEST(CausalDataTest, MembersTogetherAreOneMember) {
  const auto data = Open(ManyDocuments(), 16);
  for (const int world_size : {2, 3, 6}) {
    for (const int64_t step : {0, 1, 17}) {
      Batch all;
      ASSERT_OK(data->TrainBatch(step, 12, 0, 1, &all));
      for (int rank = 0; rank < world_size; ++rank) {
        Batch part;
        ASSERT_OK(data->TrainBatch(step, 12, rank, world_size, &part));
        ASSERT_EQ(part.size, 12 / world_size);
        EXPECT_EQ(part.first_sample, rank * part.size);
        for (int64_t i = 0; i < part.size; ++i) {
          EXPECT_EQ(Show(part, i), Show(all, part.first_sample + i));
        }
      }
    }
  }
}

TEST(CausalDataTest, ABatchIsAFunctionOfItsStep) {
  const auto data = Open(ManyDocuments(), 16);
  Batch batch, other;
  ASSERT_OK(data->TrainBatch(9, 4, 0, 1, &batch));
  // A member that resumes has read nothing before; one that does not, has.
  const auto resumed = Open(ManyDocuments(), 16);
  for (const int64_t step : {4, 9}) {
    ASSERT_OK(resumed->TrainBatch(step, 4, 0, 1, &other));
  }
  EXPECT_EQ(batch.ids, other.ids);
  EXPECT_EQ(batch.segments, other.segments);
  EXPECT_EQ(batch.mask, other.mask);
  EXPECT_EQ(batch.label_rows, other.label_rows);
  EXPECT_EQ(batch.labels, other.labels);
}

TEST(CausalDataTest, TestRows) {
  const auto data = Open({"abc"}, 4, {"xyz"});
  EXPECT_EQ(data->test_samples(), 1);
  Batch batch;
  ASSERT_OK(data->TestBatch(0, 5, &batch));
  ASSERT_EQ(batch.size, 1);
  EXPECT_EQ(Show(batch, 0), "xyz_ 000_ yz..");
  const auto none = Open({"abc"}, 4);
  EXPECT_EQ(none->test_samples(), 0);
  ASSERT_OK(none->TestBatch(0, 5, &batch));
  EXPECT_EQ(batch.size, 0);
}

TEST(CausalDataTest, BytesPerToken) {
  const auto data = Open({"abcd", "ef"}, 4, {"xyz"}, 2);
  EXPECT_DOUBLE_EQ(*data->validation_bytes_per_token(), 6.0 / 6);
  EXPECT_DOUBLE_EQ(*data->test_bytes_per_token(), 3.0 / 3);
  const auto without = Open({"abcd", "ef"}, 4);
  EXPECT_DOUBLE_EQ(*without->validation_bytes_per_token(), 6.0 / 4);
  EXPECT_FALSE(without->test_bytes_per_token().has_value());
}

TEST(CausalDataTest, BaselineIsTheUnigramLoss) {
  // Labels: b b c in training and in validation, of 128 tokens.
  const auto data = Open({"abb", "ac"}, 4);
  EXPECT_NEAR(data->baseline_loss(),
              -(2 * std::log(3.0 / 131) + std::log(2.0 / 131)) / 3, 1e-12);
  EXPECT_EQ(data->baseline_loss(), Open({"abb", "ac"}, 2)->baseline_loss());
}

}  // namespace
}  // namespace comera::trainer
