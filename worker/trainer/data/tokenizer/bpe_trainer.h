// Learns a byte-level BPE vocabulary from a corpus.
#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_BPE_TRAINER_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_BPE_TRAINER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/tokenizer/byte_pair_vocabulary.h"

namespace comera::trainer {

// How often each word occurs in a corpus.
class WordCounts {
 public:
  // Cuts `text` into words (WordSplitter) and counts them. Words above 256
  // bytes (embedded data, mostly) are left out.
  void Add(absl::string_view text);

  const absl::flat_hash_map<std::string, int64_t>& counts() const {
    return counts_;
  }

 private:
  absl::flat_hash_map<std::string, int64_t> counts_;
};

// Merges the most frequent pair of neighbours until there are `size` tokens;
// fewer when no pair occurs twice any more. Equal counts: the pair with the
// smaller ids goes first, so the result is a function of the counts alone.
// Ids as RoBERTa's: <s> <pad> </s> <unk>, the 256 bytes, merged tokens in
// order, <mask>. `on_progress(done, size)` is called now and then and may be
// empty. InvalidArgument: size below 261 or above 65536.
absl::StatusOr<BytePairVocabulary> TrainBytePairVocabulary(
    const WordCounts& words, int32_t size,
    const std::function<void(int32_t, int32_t)>& on_progress);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_BPE_TRAINER_H_
