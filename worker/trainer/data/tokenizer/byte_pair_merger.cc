// Merges the bytes of a word, the earliest learned merge first.
#include "worker/trainer/data/tokenizer/byte_pair_merger.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <tuple>

namespace comera::trainer {
namespace {

// Longer words are rarely seen twice.
constexpr size_t kMaxCachedWord = 64;
constexpr size_t kMaxWord = 64 << 10;

uint64_t Pack(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 |
         static_cast<uint32_t>(right);
}

}  // namespace

BytePairMerger::BytePairMerger(
    const std::vector<BytePairVocabulary::Merge>& merges,
    const std::array<int32_t, 256>& byte_ids)
    : byte_ids_(byte_ids) {
  merges_.reserve(merges.size());
  int32_t rank = 0;
  for (const BytePairVocabulary::Merge& merge : merges) {
    merges_.emplace(Pack(merge.left, merge.right),
                    Result{rank++, merge.result});
  }
}

const BytePairMerger::Result* BytePairMerger::FindMerge(int32_t left,
                                                        int32_t right) const {
  const auto found = merges_.find(Pack(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BytePairMerger::Merge(absl::string_view word,
                           std::vector<int32_t>* ids) const {
  // A linked list of symbols and a heap of its merges: n log n however long
  // the word is.
  struct Symbol {
    int32_t id;  // -1 once merged into its left neighbour
    int32_t previous;
    int32_t next;
  };
  // (rank, position, left, right, result): lowest rank first, then leftmost.
  using Candidate = std::tuple<int32_t, int32_t, int32_t, int32_t, int32_t>;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;

  const int32_t size = static_cast<int32_t>(word.size());
  std::vector<Symbol> symbols(word.size());
  for (int32_t i = 0; i < size; ++i) {
    symbols[i] = {byte_ids_[static_cast<unsigned char>(word[i])], i - 1,
                  i + 1 < size ? i + 1 : -1};
  }
  const auto propose = [&](int32_t at) {
    if (at < 0 || symbols[at].next < 0) return;
    const int32_t left = symbols[at].id;
    const int32_t right = symbols[symbols[at].next].id;
    if (const Result* merge = FindMerge(left, right)) {
      heap.push({merge->rank, at, left, right, merge->id});
    }
  };
  for (int32_t i = 0; i < size; ++i) propose(i);
  while (!heap.empty()) {
    const auto [rank, at, left, right, result] = heap.top();
    heap.pop();
    Symbol& symbol = symbols[at];
    // Either side may have changed since this was proposed.
    if (symbol.id != left || symbol.next < 0 ||
        symbols[symbol.next].id != right) {
      continue;
    }
    Symbol& gone = symbols[symbol.next];
    symbol.id = result;
    symbol.next = gone.next;
    gone.id = -1;
    if (symbol.next >= 0) symbols[symbol.next].previous = at;
    propose(symbol.previous);
    propose(at);
  }
  for (int32_t i = size > 0 ? 0 : -1; i >= 0; i = symbols[i].next) {
    ids->push_back(symbols[i].id);
  }
}

void BytePairMerger::Append(absl::string_view word, std::vector<int32_t>* ids) {
  if (word.size() <= kMaxCachedWord) {
    cache_.Append(word, ids,
                  [this](absl::string_view each, std::vector<int32_t>* to) {
                    Merge(each, to);
                  });
    return;
  }
  for (; !word.empty(); word.remove_prefix(std::min(kMaxWord, word.size()))) {
    Merge(word.substr(0, kMaxWord), ids);
  }
}

}  // namespace comera::trainer
