// Tests the merges that a BPE learns.
#include "worker/trainer/data/tokenizer/bpe_trainer.h"

#include <map>
#include <utility>
#include <vector>

#include "common/status_matchers.h"
#include "worker/trainer/data/tokenizer/byte_bpe_tokenizer.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

// Counts all pairs afresh for every merge: the meaning of the trainer.
std::vector<std::pair<int32_t, int32_t>> NaiveMerges(const WordCounts& words,
                                                     int32_t merges) {
  std::vector<std::pair<std::vector<int32_t>, int64_t>> state;
  std::vector<std::string> tokens(260);
  std::map<std::string, int32_t> ids;
  for (int byte = 0; byte < 256; ++byte) {
    tokens[4 + byte] = std::string(1, static_cast<char>(byte));
    ids[tokens[4 + byte]] = 4 + byte;
  }
  for (const auto& [word, count] : words.counts()) {
    std::vector<int32_t> symbols;
    for (const unsigned char byte : word) symbols.push_back(4 + byte);
    state.emplace_back(symbols, count);
  }
  std::vector<std::pair<int32_t, int32_t>> result;
  while (static_cast<int32_t>(tokens.size()) < 260 + merges) {
    std::map<std::pair<int32_t, int32_t>, int64_t> counts;
    for (const auto& [symbols, count] : state) {
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        counts[{symbols[i], symbols[i + 1]}] += count;
      }
    }
    std::pair<int32_t, int32_t> best;
    int64_t most = 1;
    for (const auto& [pair, count] : counts) {
      if (count > most) {
        most = count;
        best = pair;
      }
    }
    if (most == 1) break;
    const std::string token = tokens[best.first] + tokens[best.second];
    const auto [id, added] =
        ids.emplace(token, static_cast<int32_t>(tokens.size()));
    if (added) tokens.push_back(token);
    if (std::find(result.begin(), result.end(), best) == result.end()) {
      result.push_back(best);
    }
    for (auto& [symbols, count] : state) {
      std::vector<int32_t> merged;
      for (size_t i = 0; i < symbols.size(); ++i) {
        if (i + 1 < symbols.size() && symbols[i] == best.first &&
            symbols[i + 1] == best.second) {
          merged.push_back(id->second);
          ++i;
        } else {
          merged.push_back(symbols[i]);
        }
      }
      symbols = std::move(merged);
    }
  }
  return result;
}

std::vector<std::pair<int32_t, int32_t>> Merges(
    const BytePairVocabulary& vocabulary) {
  std::vector<std::pair<int32_t, int32_t>> merges;
  for (const auto& merge : vocabulary.merges) {
    merges.emplace_back(merge.left, merge.right);
  }
  return merges;
}

// Words over few letters, so that pairs overlap and tie often.
WordCounts RandomWords(uint32_t seed, int letters, int words) {
  WordCounts counts;
  std::string text;
  uint32_t state = seed;
  for (int i = 0; i < words; ++i) {
    state = state * 1664525 + 1013904223;
    const int length = 1 + static_cast<int>(state >> 28);
    for (int j = 0; j < length; ++j) {
      state = state * 1664525 + 1013904223;
      text.push_back(static_cast<char>('a' + (state >> 16) % letters));
    }
    text.push_back(' ');
  }
  counts.Add(text);
  return counts;
}

TEST(BpeTrainerTest, EqualsRecounting) {
  for (const int letters : {1, 2, 3, 5, 20}) {
    for (uint32_t seed = 1; seed <= 4; ++seed) {
      const WordCounts words = RandomWords(seed, letters, 400);
      ASSERT_OK_AND_ASSIGN(const BytePairVocabulary vocabulary,
                           TrainBytePairVocabulary(words, 261 + 80, {}));
      EXPECT_EQ(Merges(vocabulary), NaiveMerges(words, 80))
          << letters << " letters, seed " << seed;
    }
  }
}

TEST(BpeTrainerTest, LayoutIsRobertas) {
  WordCounts words;
  words.Add("abab ab ab");
  ASSERT_OK_AND_ASSIGN(const BytePairVocabulary vocabulary,
                       TrainBytePairVocabulary(words, 263, {}));
  ASSERT_EQ(vocabulary.tokens.size(), 263u);
  EXPECT_EQ(vocabulary.tokens[0], "<s>");
  EXPECT_EQ(vocabulary.tokens[1], "<pad>");
  EXPECT_EQ(vocabulary.tokens[2], "</s>");
  EXPECT_EQ(vocabulary.tokens[3], "<unk>");
  EXPECT_EQ(vocabulary.tokens[4 + 'a'], "a");
  EXPECT_EQ(vocabulary.tokens[260], "ab");
  EXPECT_EQ(vocabulary.tokens[261], "Ġab");
  EXPECT_EQ(vocabulary.tokens[262], "<mask>");
}

TEST(BpeTrainerTest, StopsWhenNothingRepeats) {
  WordCounts words;
  words.Add("abc");
  ASSERT_OK_AND_ASSIGN(const BytePairVocabulary vocabulary,
                       TrainBytePairVocabulary(words, 4096, {}));
  EXPECT_EQ(vocabulary.tokens.size(), 261u);
  EXPECT_TRUE(vocabulary.merges.empty());
}

TEST(BpeTrainerTest, RoundTrip) {
  const std::string text =
      "def f(x):\n    return x + 1  # é 東京\n\ndef g(x):\n    return f(x)\n";
  WordCounts words;
  for (int i = 0; i < 3; ++i) words.Add(text);
  ASSERT_OK_AND_ASSIGN(BytePairVocabulary vocabulary,
                       TrainBytePairVocabulary(words, 300, {}));
  // What is trained is what can be loaded.
  ASSERT_OK_AND_ASSIGN(vocabulary,
                       ParseBytePairVocabulary(VocabularyJson(vocabulary), "v",
                                               MergesText(vocabulary), "m"));
  ASSERT_OK_AND_ASSIGN(auto tokenizer,
                       ByteBpeTokenizer::Create(std::move(vocabulary)));
  std::vector<int32_t> ids;
  tokenizer->Encode(text, &ids);
  EXPECT_LT(ids.size(), text.size() * 3 / 4);
  EXPECT_EQ(tokenizer->Decode(ids), text);
}

TEST(BpeTrainerTest, LongWordsAreLeftOut) {
  WordCounts words;
  words.Add(std::string(300, 'x') + " ab");
  EXPECT_EQ(words.counts().size(), 1u);
}

TEST(BpeTrainerTest, ImpossibleSizes) {
  for (const int32_t size : {-1, 0, 260, 65537}) {
    EXPECT_THAT(TrainBytePairVocabulary(WordCounts(), size, {}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("train_vocabulary_size")));
  }
}

}  // namespace
}  // namespace comera::trainer
