#ifndef COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_TOKENIZER_H_
#define COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/tokenizer/sentencepiece/model.h"
#include "worker/trainer/data/tokenizer/sentencepiece/normalizer.h"
#include "worker/trainer/data/tokenizer/sentencepiece/piece_boundaries.h"
#include "worker/trainer/data/tokenizer/sentencepiece/piece_segmenter.h"
#include "worker/trainer/data/tokenizer/tokenizer.h"
#include "worker/trainer/data/tokenizer/word_cache.h"

namespace comera::trainer {

// A SentencePiece model (BPE or unigram), as Llama's, Mistral's and T5's. Text
// is normalized and cut into pieces; <s> and </s> are not added, and their
// names in a text are text.
//
// The code is our own: the headers of SentencePiece's library do not compile
// beside Abseil's, and Debian's build of it brings another version of Protocol
// Buffers into the process.
class SentencePieceTokenizer : public Tokenizer {
 public:
  // Reads a model of up to 16 MiB. NotFound; errors of ParseSentencePieceModel.
  static absl::StatusOr<std::unique_ptr<SentencePieceTokenizer>> Load(
      const std::string& file);
  // The same from contents; `name` is for messages.
  static absl::StatusOr<std::unique_ptr<SentencePieceTokenizer>> Parse(
      std::string contents, const std::string& name);

  // A text's pieces are those of SentencePiece, with two exceptions. Where 64
  // KiB hold no place that every segmentation cuts at, the text is cut, which
  // bounds the memory that a hostile text can ask for. In texts above 32 KiB
  // sums of a unigram model's scores begin anew now and then, and lose less to
  // rounding.
  void Encode(absl::string_view text, std::vector<int32_t>* ids) override;
  void AppendBytes(int32_t id, std::string* bytes) const override;
  bool adds_first_space() const override {
    return model_.add_dummy_prefix || model_.remove_extra_spaces;
  }

  const SpecialTokens& special_tokens() const override { return special_; }
  // The model's </s>, if it has one.
  std::optional<int32_t> end_of_text() const override;
  int32_t vocabulary_size() const override {
    return static_cast<int32_t>(model_.pieces.size());
  }
  bool has_segments() const override { return false; }
  const std::string& Token(int32_t id) const override {
    return model_.pieces[id].text;
  }
  // tokenizer.model, byte for byte; tokenizer_config.json.
  absl::Status Save(const std::string& directory) const override;

 private:
  SentencePieceTokenizer(std::string contents, SentencePieceModel model,
                         SentencePieceNormalizer normalizer);
  // Appends the ids of normalized text between two boundaries.
  void AppendPart(absl::string_view part, std::vector<int32_t>* ids);

  const std::string contents_;
  const SentencePieceModel model_;
  const SentencePieceNormalizer normalizer_;
  const PieceBoundaries boundaries_;
  const std::unique_ptr<const PieceSegmenter> segmenter_;
  SpecialTokens special_;
  WordCache cache_;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_TOKENIZER_SENTENCEPIECE_TOKENIZER_H_
