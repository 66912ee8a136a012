#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_HUGGING_FACE_TOKENIZER_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_HUGGING_FACE_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/tokenizer/added_tokens.h"
#include "worker/trainer/data/tokenizer/byte_pair_merger.h"
#include "worker/trainer/data/tokenizer/hugging_face_file.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// The byte-level BPE of a tokenizer.json, as the tokenizers library encodes
// without special tokens around a text: added tokens are found in the text,
// what lies between is cut into words (WordSplitter), whose bytes are merged.
class HuggingFaceTokenizer : public Tokenizer {
 public:
  // Reads a tokenizer.json of up to 32 MiB. NotFound; errors of
  // ParseHuggingFaceFile.
  static absl::StatusOr<std::unique_ptr<HuggingFaceTokenizer>> Load(
      const std::string& file);
  // The same from contents; `name` is for messages.
  static absl::StatusOr<std::unique_ptr<HuggingFaceTokenizer>> Parse(
      std::string contents, const std::string& name);

  void Encode(absl::string_view text, std::vector<int32_t>* ids) override;
  void AppendBytes(int32_t id, std::string* bytes) const override;

  // <s>, </s>, <pad>, <mask> and <unk> where they are special tokens.
  const SpecialTokens& special_tokens() const override { return special_; }
  // The special token <|endoftext|>, </s> or <|end_of_text|>, the first that
  // there is.
  std::optional<int32_t> end_of_text() const override { return end_of_text_; }
  int32_t vocabulary_size() const override {
    return static_cast<int32_t>(tokens_.size());
  }
  bool has_segments() const override { return false; }
  const std::string& Token(int32_t id) const override { return tokens_[id]; }
  // tokenizer.json, byte for byte; tokenizer_config.json.
  absl::Status Save(const std::string& directory) const override;

 private:
  enum class Kind : uint8_t {
    // The token is written in ByteCharacters().
    kBytes,
    // The token is its text.
    kText,
    kSpecial,
  };

  HuggingFaceTokenizer(std::string contents, HuggingFaceFile file);
  void EncodePart(absl::string_view part, std::vector<int32_t>* ids);

  const std::string contents_;
  const std::vector<std::string> tokens_;
  const AddedTokens added_;
  const bool add_prefix_space_;
  const bool use_regex_;
  BytePairMerger merger_;
  std::vector<Kind> kinds_;
  SpecialTokens special_;
  std::optional<int32_t> end_of_text_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_HUGGING_FACE_TOKENIZER_H_
