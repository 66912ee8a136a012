// Encodes and decodes text with a SentencePiece model.
#include "worker/trainer/data/tokenizer/sentencepiece_tokenizer.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "unicode/utf8.h"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/data/source/text.h"
#include "worker/trainer/data/tokenizer/sentencepiece/bpe_segmenter.h"
#include "worker/trainer/data/tokenizer/sentencepiece/unigram_segmenter.h"

namespace comera::trainer {
namespace {

constexpr int64_t kMaxFileBytes = 16 << 20;
// Longer parts are rarely seen twice.
constexpr size_t kMaxCachedPart = 64;
constexpr size_t kMaxPart = 64 << 10;
// SentencePiece sums a unigram model's scores as float from the beginning of a
// text, and rounding decides between equal segmentations: up to this size the
// text is not cut.
constexpr size_t kMinUnigramPart = 32 << 10;

std::unique_ptr<const PieceSegmenter> MakeSegmenter(
    const SentencePieceModel* model) {
  if (model->kind == SentencePieceModel::Kind::kUnigram) {
    return std::make_unique<UnigramSegmenter>(model);
  }
  return std::make_unique<BpeSegmenter>(model);
}

// The code point of a character.
int32_t CodePoint(absl::string_view character) {
  int64_t i = 0;
  UChar32 c = 0;
  U8_NEXT(character.data(), i, static_cast<int64_t>(character.size()), c);
  return c;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SentencePieceTokenizer>>
SentencePieceTokenizer::Load(const std::string& file) {
  ASSIGN_OR_RETURN(std::string contents, ReadLimited(file, kMaxFileBytes));
  return Parse(std::move(contents), file);
}

absl::StatusOr<std::unique_ptr<SentencePieceTokenizer>>
SentencePieceTokenizer::Parse(std::string contents, const std::string& name) {
  ASSIGN_OR_RETURN(SentencePieceModel model,
                   ParseSentencePieceModel(contents, name));
  absl::StatusOr<SentencePieceNormalizer> normalizer =
      SentencePieceNormalizer::Create(model);
  if (!normalizer.ok()) {
    return absl::Status(
        normalizer.status().code(),
        absl::StrCat(PrintablePath(name), ": ", normalizer.status().message()));
  }
  return absl::WrapUnique(new SentencePieceTokenizer(
      std::move(contents), std::move(model), *std::move(normalizer)));
}

SentencePieceTokenizer::SentencePieceTokenizer(
    std::string contents, SentencePieceModel model,
    SentencePieceNormalizer normalizer)
    : contents_(std::move(contents)),
      model_(std::move(model)),
      normalizer_(std::move(normalizer)),
      boundaries_(model_),
      segmenter_(MakeSegmenter(&model_)) {
  special_.cls = model_.begin;
  special_.sep = model_.end;
  special_.mask = -1;
  special_.unk = model_.unknown;
  special_.pad = model_.pad >= 0 ? model_.pad : std::max(0, model_.end);
}

std::optional<int32_t> SentencePieceTokenizer::end_of_text() const {
  if (model_.end < 0) return std::nullopt;
  return model_.end;
}

void SentencePieceTokenizer::AppendPart(absl::string_view part,
                                        std::vector<int32_t>* ids) {
  if (part.size() > kMaxCachedPart) return segmenter_->Append(part, ids);
  cache_.Append(part, ids,
                [this](absl::string_view each, std::vector<int32_t>* to) {
                  segmenter_->Append(each, to);
                });
}

void SentencePieceTokenizer::Encode(absl::string_view text,
                                    std::vector<int32_t>* ids) {
  const size_t first = ids->size();
  const size_t min_part =
      model_.kind == SentencePieceModel::Kind::kUnigram ? kMinUnigramPart : 1;
  std::string part;
  int32_t left = -1;
  normalizer_.Normalize(text, [&](absl::string_view character) {
    const int32_t right = CodePoint(character);
    if (part.size() >= kMaxPart ||
        (part.size() >= min_part && boundaries_.Between(left, right))) {
      AppendPart(part, ids);
      part.clear();
    }
    part.append(character.data(), character.size());
    left = right;
  });
  if (!part.empty()) AppendPart(part, ids);
  // Unknown characters side by side are one piece.
  ids->erase(std::unique(ids->begin() + static_cast<int64_t>(first), ids->end(),
                         [this](int32_t a, int32_t b) {
                           return a == b && a == model_.unknown;
                         }),
             ids->end());
}

void SentencePieceTokenizer::AppendBytes(int32_t id, std::string* bytes) const {
  const SentencePieceModel::Piece& piece = model_.pieces[id];
  switch (piece.type) {
    case SentencePieceModel::Type::kControl:
      return;
    case SentencePieceModel::Type::kUnknown:
      bytes->append(model_.unknown_text);
      return;
    case SentencePieceModel::Type::kByte: {
      // The piece is "<0x41>".
      uint32_t byte = 0;
      if (absl::SimpleHexAtoi(piece.text.substr(3, 2), &byte)) {
        bytes->push_back(static_cast<char>(byte));
      }
      return;
    }
    case SentencePieceModel::Type::kNormal:
    case SentencePieceModel::Type::kUserDefined:
    case SentencePieceModel::Type::kUnused:
      absl::StrAppend(bytes,
                      absl::StrReplaceAll(piece.text, {{kSpacePiece, " "}}));
      return;
  }
}

absl::Status SentencePieceTokenizer::Save(const std::string& directory) const {
  RETURN_IF_ERROR(
      WriteFileAtomically(directory + "/tokenizer.model", contents_));
  return WriteFileAtomically(directory + "/tokenizer_config.json",
                             "{\"tokenizer_class\": \"LlamaTokenizer\", "
                             "\"add_bos_token\": false, "
                             "\"add_eos_token\": false, \"legacy\": true}\n");
}

}  // namespace comera::trainer
