// Finds the strings of a set that a text begins with.
#include "worker/trainer/data/tokenizer/prefix_trie.h"

namespace comera::trainer {
namespace {

uint64_t Edge(int32_t node, char byte) {
  return uint64_t{static_cast<uint32_t>(node)} << 8 |
         static_cast<unsigned char>(byte);
}

}  // namespace

PrefixTrie::PrefixTrie() : values_(1, -1) { from_root_.fill(-1); }

int32_t PrefixTrie::Next(int32_t node, char byte) const {
  if (node == 0) return from_root_[static_cast<unsigned char>(byte)];
  const auto found = edges_.find(Edge(node, byte));
  return found == edges_.end() ? -1 : found->second;
}

void PrefixTrie::Add(absl::string_view key, int32_t value) {
  int32_t node = 0;
  for (const char byte : key) {
    int32_t next = Next(node, byte);
    if (next < 0) {
      next = static_cast<int32_t>(values_.size());
      values_.push_back(-1);
      if (node == 0) {
        from_root_[static_cast<unsigned char>(byte)] = next;
      } else {
        edges_.emplace(Edge(node, byte), next);
      }
    }
    node = next;
  }
  values_[node] = value;
}

PrefixTrie::Match PrefixTrie::Longest(absl::string_view text) const {
  Match longest;
  ForEachPrefix(text, [&longest](const Match& match) { longest = match; });
  return longest;
}

}  // namespace comera::trainer
