#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_CODE_POINT_TOKENIZER_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_CODE_POINT_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/tokenizer/code_point_set.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"

namespace comera::trainer {

// Every character is a token. Ids: <unk> for characters that the vocabulary
// lacks and for bytes that are not UTF-8, </s>, the characters in order of
// their code points. The unknown token's text is U+FFFD.
class CodePointTokenizer : public Tokenizer {
 public:
  // Reads characters.json, a list of the tokens. NotFound; DataLoss: malformed,
  // other tokens than characters in ascending order behind <unk> and </s>.
  static absl::StatusOr<std::unique_ptr<CodePointTokenizer>> Load(
      const std::string& file);
  // The same from contents; `name` is for messages.
  static absl::StatusOr<std::unique_ptr<CodePointTokenizer>> Parse(
      absl::string_view contents, const std::string& name);
  // Makes characters.json of the characters of a corpus.
  static std::string FileOf(const CodePointSet& characters);

  void Encode(absl::string_view text, std::vector<int32_t>* ids) override;
  void AppendBytes(int32_t id, std::string* bytes) const override;

  const SpecialTokens& special_tokens() const override { return special_; }
  // </s>
  std::optional<int32_t> end_of_text() const override { return special_.sep; }
  int32_t vocabulary_size() const override {
    return static_cast<int32_t>(tokens_.size());
  }
  bool has_segments() const override { return false; }
  const std::string& Token(int32_t id) const override { return tokens_[id]; }
  // characters.json
  absl::Status Save(const std::string& directory) const override;

 private:
  explicit CodePointTokenizer(std::vector<std::string> tokens);

  const std::vector<std::string> tokens_;
  // Ids of code points, up to the largest that has one.
  std::vector<int32_t> ids_;
  SpecialTokens special_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_CODE_POINT_TOKENIZER_H_
