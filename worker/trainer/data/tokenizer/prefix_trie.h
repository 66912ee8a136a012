#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_PREFIX_TRIE_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_PREFIX_TRIE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace comera::trainer {

// Strings with a value each, to find those that a text begins with.
//
// Thread safety: const methods may overlap.
class PrefixTrie {
 public:
  struct Match {
    size_t length = 0;  // bytes; 0: none
    int32_t value = 0;
  };

  PrefixTrie();

  // `key` is not empty, `value` is not negative. A key's last value holds.
  void Add(absl::string_view key, int32_t value);

  bool empty() const { return values_.size() == 1; }

  // Calls visit(Match) for each key that `text` begins with, shortest first.
  template <typename F>
  void ForEachPrefix(absl::string_view text, const F& visit) const {
    int32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      node = Next(node, text[i]);
      if (node < 0) return;
      if (values_[node] >= 0) visit(Match{i + 1, values_[node]});
    }
  }

  // The longest of them.
  Match Longest(absl::string_view text) const;

 private:
  // The node behind `byte`, -1 if there is none.
  int32_t Next(int32_t node, char byte) const;

  // Nodes are numbers, the root is 0. Most searches end at the root.
  std::array<int32_t, 256> from_root_;
  // Other edges, as node << 8 | byte.
  absl::flat_hash_map<uint64_t, int32_t> edges_;
  // Value of the key that ends at a node, -1 if none does.
  std::vector<int32_t> values_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_PREFIX_TRIE_H_
