// Learns the merges of a byte-level BPE from counted words.
#include "worker/trainer/data/tokenizer/bpe_trainer.h"

#include <algorithm>
#include <queue>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "worker/trainer/data/tokenizer/byte_level.h"

namespace comera::trainer {
namespace {

constexpr size_t kMaxWordBytes = 256;
constexpr int32_t kFirstByte = 4;  // after <s> <pad> </s> <unk>
constexpr int32_t kProgressEvery = 200;

using Pair = uint64_t;  // left << 32 | right

Pair Pack(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 |
         static_cast<uint32_t>(right);
}

struct Candidate {
  int64_t count;
  Pair pair;
  // Orders a heap with the largest count, then the smallest ids, on top.
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

// All words as symbols, with the count of every pair of neighbours and the
// words it occurs in. Counts are exact; lists of words may hold words that lost
// the pair since, and heap entries whose counts fell since.
class PairTable {
 public:
  explicit PairTable(const absl::flat_hash_map<std::string, int64_t>& counts) {
    for (const auto& [text, count] : counts) {
      if (text.size() < 2) continue;
      Word word{symbols_.size(), static_cast<int32_t>(text.size()), count};
      for (const unsigned char byte : text) {
        symbols_.push_back(kFirstByte + byte);
      }
      const int32_t index = static_cast<int32_t>(words_.size());
      words_.push_back(word);
      for (int32_t i = 0; i + 1 < word.size; ++i) {
        Change(Pack(symbols_[word.first + i], symbols_[word.first + i + 1]),
               count, index);
      }
    }
    PushTouched();
  }

  // The most frequent pair; false when none occurs twice.
  bool Top(Pair* pair) {
    while (!heap_.empty()) {
      const Candidate top = heap_.top();
      const auto found = pairs_.find(top.pair);
      const int64_t count = found == pairs_.end() ? 0 : found->second.count;
      if (top.count == count && count >= 2) {
        *pair = top.pair;
        return true;
      }
      heap_.pop();
      if (count >= 2 && count < top.count) heap_.push({count, top.pair});
    }
    return false;
  }

  void Merge(Pair pair, int32_t result) {
    const std::vector<int32_t> words = std::move(pairs_[pair].words);
    for (const int32_t index : words) MergeWord(index, pair, result);
    pairs_.erase(pair);
    PushTouched();
  }

 private:
  struct Word {
    size_t first;  // in symbols_
    int32_t size;
    int64_t count;
  };
  struct Entry {
    int64_t count = 0;
    std::vector<int32_t> words;
  };

  void Change(Pair pair, int64_t by, int32_t word) {
    Entry& entry = pairs_[pair];
    entry.count += by;
    if (by < 0) return;
    if (entry.words.empty() || entry.words.back() != word) {
      entry.words.push_back(word);
    }
    touched_.push_back(pair);
  }

  void PushTouched() {
    std::sort(touched_.begin(), touched_.end());
    touched_.erase(std::unique(touched_.begin(), touched_.end()),
                   touched_.end());
    for (const Pair pair : touched_) {
      const auto found = pairs_.find(pair);
      if (found != pairs_.end()) heap_.push({found->second.count, pair});
    }
    touched_.clear();
  }

  void MergeWord(int32_t index, Pair pair, int32_t result) {
    const int32_t left = static_cast<int32_t>(pair >> 32);
    const int32_t right = static_cast<int32_t>(pair & 0xffffffffu);
    Word& word = words_[index];
    int32_t* const symbols = &symbols_[word.first];
    int32_t kept = 0;
    for (int32_t i = 0; i < word.size; ++kept) {
      if (i + 1 == word.size || symbols[i] != left || symbols[i + 1] != right) {
        symbols[kept] = symbols[i++];
        continue;
      }
      if (kept > 0) {
        Change(Pack(symbols[kept - 1], left), -word.count, index);
        Change(Pack(symbols[kept - 1], result), word.count, index);
      }
      if (i + 2 < word.size) {
        Change(Pack(right, symbols[i + 2]), -word.count, index);
        Change(Pack(result, symbols[i + 2]), word.count, index);
      }
      symbols[kept] = result;
      i += 2;
    }
    word.size = kept;
  }

  std::vector<int32_t> symbols_;
  std::vector<Word> words_;
  absl::flat_hash_map<Pair, Entry> pairs_;
  std::priority_queue<Candidate> heap_;
  std::vector<Pair> touched_;
};

}  // namespace

void WordCounts::Add(absl::string_view text) {
  WordSplitter splitter(text);
  absl::string_view word;
  while (splitter.Next(&word)) {
    if (word.size() <= kMaxWordBytes) ++counts_[word];
  }
}

absl::StatusOr<BytePairVocabulary> TrainBytePairVocabulary(
    const WordCounts& words, int32_t size,
    const std::function<void(int32_t, int32_t)>& on_progress) {
  if (size < kFirstByte + 256 + 1 || size > 65536) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.tokenizer.train_vocabulary_size: ", size,
                     " is not in 261 to 65536"));
  }
  BytePairVocabulary vocabulary;
  vocabulary.tokens = {"<s>", "<pad>", "</s>", "<unk>"};
  vocabulary.tokens.insert(vocabulary.tokens.end(), ByteCharacters().begin(),
                           ByteCharacters().end());
  absl::flat_hash_map<std::string, int32_t> ids;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    ids.emplace(vocabulary.tokens[id], static_cast<int32_t>(id));
  }

  PairTable table(words.counts());
  absl::flat_hash_set<Pair> merged;
  Pair pair = 0;
  while (static_cast<int32_t>(vocabulary.tokens.size()) + 1 < size &&
         table.Top(&pair)) {
    BytePairVocabulary::Merge merge;
    merge.left = static_cast<int32_t>(pair >> 32);
    merge.right = static_cast<int32_t>(pair & 0xffffffffu);
    const std::string token = absl::StrCat(vocabulary.tokens[merge.left],
                                           vocabulary.tokens[merge.right]);
    // "a" + "bc" and "ab" + "c" are one token, so a pair can also come back
    // after it was merged; it keeps its first rank. Words are of one class of
    // characters, so no token spells a special one.
    const auto [found, added] =
        ids.emplace(token, static_cast<int32_t>(vocabulary.tokens.size()));
    if (added) vocabulary.tokens.push_back(token);
    merge.result = found->second;
    table.Merge(pair, merge.result);
    if (!merged.insert(pair).second) continue;
    vocabulary.merges.push_back(merge);
    if (on_progress && vocabulary.merges.size() % kProgressEvery == 0) {
      on_progress(static_cast<int32_t>(vocabulary.tokens.size()), size);
    }
  }
  vocabulary.tokens.push_back("<mask>");
  return vocabulary;
}

}  // namespace comera::trainer
