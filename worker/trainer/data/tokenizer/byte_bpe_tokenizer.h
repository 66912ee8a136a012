#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_BYTE_BPE_TOKENIZER_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_BYTE_BPE_TOKENIZER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/tokenizer/byte_pair_vocabulary.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"
#include "worker/trainer/data/tokenizer/word_cache.h"

namespace comera::trainer {

// RoBERTa's tokenizer: words (WordSplitter) as bytes, neighbours merged in the
// order in which the vocabulary learned its merges. Every text has ids, and
// Decode gives it back.
class ByteBpeTokenizer : public Tokenizer {
 public:
  // DataLoss: <s>, <pad>, </s>, <unk> or <mask> is missing.
  static absl::StatusOr<std::unique_ptr<ByteBpeTokenizer>> Create(
      BytePairVocabulary vocabulary);

  void Encode(absl::string_view text, std::vector<int32_t>* ids) override;
  // The bytes behind `ids`, special tokens left out.
  std::string Decode(const std::vector<int32_t>& ids) const;

  const SpecialTokens& special_tokens() const override { return special_; }
  int32_t vocabulary_size() const override {
    return static_cast<int32_t>(vocabulary_.tokens.size());
  }
  bool has_segments() const override { return false; }
  const std::string& Token(int32_t id) const override {
    return vocabulary_.tokens[id];
  }
  // vocab.json, merges.txt, tokenizer_config.json.
  absl::Status Save(const std::string& directory) const override;

 private:
  struct Result {
    int32_t rank = 0;
    int32_t id = 0;
  };

  explicit ByteBpeTokenizer(BytePairVocabulary vocabulary);
  // Appends the ids of one word.
  void MergeWord(absl::string_view word, std::vector<int32_t>* ids) const;
  const Result* FindMerge(int32_t left, int32_t right) const;

  const BytePairVocabulary vocabulary_;
  SpecialTokens special_;
  std::array<int32_t, 256> byte_ids_;
  // Merge of (left, right), packed as left << 32 | right.
  absl::flat_hash_map<uint64_t, Result> merges_;
  WordCache cache_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_BYTE_BPE_TOKENIZER_H_
