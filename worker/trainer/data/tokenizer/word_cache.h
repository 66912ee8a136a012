#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_WORD_CACHE_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_WORD_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace comera::trainer {

// The ids of words seen before: a corpus is made of few words. When it is full
// it starts anew. Not thread-safe.
class WordCache {
 public:
  // Appends the ids of `word` to *ids, from the cache or by encode(word, ids),
  // which appends and depends on the word alone.
  template <typename F>
  void Append(absl::string_view word, std::vector<int32_t>* ids,
              const F& encode) {
    const auto found = ranges_.find(word);
    if (found != ranges_.end()) {
      ids->insert(ids->end(), ids_.begin() + found->second.first,
                  ids_.begin() + found->second.second);
      return;
    }
    const size_t first = ids->size();
    encode(word, ids);
    if (ranges_.size() == kMaxWords) {
      ranges_.clear();
      ids_.clear();
    }
    const uint32_t begin = static_cast<uint32_t>(ids_.size());
    ids_.insert(ids_.end(), ids->begin() + first, ids->end());
    ranges_.emplace(word,
                    std::make_pair(begin, static_cast<uint32_t>(ids_.size())));
  }

 private:
  // About 25 MiB of them: each thread that tokenises has a cache of its own.
  static constexpr size_t kMaxWords = 1 << 18;

  // Ids at [first, second) of ids_.
  absl::flat_hash_map<std::string, std::pair<uint32_t, uint32_t>> ranges_;
  std::vector<int32_t> ids_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_WORD_CACHE_H_
