#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_BYTE_BPE_TOKENIZER_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_BYTE_BPE_TOKENIZER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/tokenizer/byte_pair_merger.h"
#include "worker/trainer/data/tokenizer/byte_pair_vocabulary.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

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
  void AppendBytes(int32_t id, std::string* bytes) const override;

  const SpecialTokens& special_tokens() const override { return special_; }
  // </s>
  std::optional<int32_t> end_of_text() const override { return special_.sep; }
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
  ByteBpeTokenizer(BytePairVocabulary vocabulary, const SpecialTokens& special,
                   const std::array<int32_t, 256>& byte_ids);

  const BytePairVocabulary vocabulary_;
  const SpecialTokens special_;
  BytePairMerger merger_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_BYTE_BPE_TOKENIZER_H_
