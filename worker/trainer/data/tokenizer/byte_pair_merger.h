#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_BYTE_PAIR_MERGER_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_BYTE_PAIR_MERGER_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/tokenizer/byte_pair_vocabulary.h"
#include "worker/trainer/data/tokenizer/word_cache.h"

namespace comera::trainer {

// Bytes of a word to the tokens of a byte-level BPE: neighbours are merged in
// the order in which the vocabulary learned its merges.
//
// Not thread safe: words are remembered.
class BytePairMerger {
 public:
  // `byte_ids`: the token of each byte.
  BytePairMerger(const std::vector<BytePairVocabulary::Merge>& merges,
                 const std::array<int32_t, 256>& byte_ids);

  // Appends the ids of `word`. A word above 64 KiB is cut there, which bounds
  // the memory that a hostile text can ask for.
  void Append(absl::string_view word, std::vector<int32_t>* ids);

 private:
  struct Result {
    int32_t rank = 0;
    int32_t id = 0;
  };

  void Merge(absl::string_view word, std::vector<int32_t>* ids) const;
  const Result* FindMerge(int32_t left, int32_t right) const;

  const std::array<int32_t, 256> byte_ids_;
  // Merge of (left, right), packed as left << 32 | right.
  absl::flat_hash_map<uint64_t, Result> merges_;
  WordCache cache_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_BYTE_PAIR_MERGER_H_
