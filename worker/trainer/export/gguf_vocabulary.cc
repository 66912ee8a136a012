// Writes tokens, their kinds, merges and scores under llama.cpp's keys.
#include "worker/trainer/export/gguf_vocabulary.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "worker/trainer/data/tokenizer/byte_level.h"
#include "worker/trainer/data/tokenizer/byte_pair_vocabulary.h"
#include "worker/trainer/data/tokenizer/hugging_face_file.h"
#include "worker/trainer/data/tokenizer/saved_tokenizer.h"
#include "worker/trainer/data/tokenizer/sentencepiece/model.h"

namespace comera::trainer {
namespace {

// Kinds of tokens, as the format numbers them.
enum Kind : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kByte = 6,
};

using Piece = SentencePieceModel::Piece;

absl::Status Refuse(absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat(
      "gguf: llama.cpp has no tokenizer with the same tokens: ", what));
}

// Special tokens by their ids; llama.cpp has others of its own for those that
// are missing, which only the end of a text is asked for.
absl::Status AddSpecialTokens(const Tokenizer& tokenizer, GgufFile* file) {
  const std::optional<int32_t> end = tokenizer.end_of_text();
  if (!end) return Refuse("this vocabulary has no token that ends a text");
  const SpecialTokens& special = tokenizer.special_tokens();
  const auto add = [&](const char* name, int32_t id) {
    file->Set(absl::StrCat("tokenizer.ggml.", name), static_cast<uint32_t>(id));
  };
  add("bos_token_id", special.cls >= 0 ? special.cls : *end);
  add("eos_token_id", *end);
  if (special.unk >= 0) add("unknown_token_id", special.unk);
  add("padding_token_id", special.pad);
  file->Set("tokenizer.ggml.add_bos_token", false);
  file->Set("tokenizer.ggml.add_eos_token", false);
  return absl::OkStatus();
}

absl::Status AddBytePairs(const BytePairVocabulary& vocabulary,
                          const std::vector<int32_t>& kinds, GgufFile* file) {
  const std::vector<std::string>& tokens = vocabulary.tokens;
  const absl::flat_hash_set<absl::string_view> known(tokens.begin(),
                                                     tokens.end());
  for (const std::string& character : ByteCharacters()) {
    if (!known.contains(character)) {
      return Refuse("this vocabulary lacks tokens of bytes");
    }
  }
  std::vector<std::string> merges;
  merges.reserve(vocabulary.merges.size());
  for (const BytePairVocabulary::Merge& merge : vocabulary.merges) {
    const std::string &left = tokens[merge.left], &right = tokens[merge.right];
    if (absl::StrContains(left, ' ') || absl::StrContains(right, ' ')) {
      return Refuse("a merge is of tokens with spaces");
    }
    merges.push_back(absl::StrCat(left, " ", right));
  }
  file->Set("tokenizer.ggml.model", "gpt2");
  file->Set("tokenizer.ggml.pre", "gpt-2");
  file->Set("tokenizer.ggml.tokens", tokens);
  file->Set("tokenizer.ggml.token_type", kinds);
  file->Set("tokenizer.ggml.merges", merges);
  return absl::OkStatus();
}

absl::Status AddOurBytePairs(const v1::TokenizerSpec& saved,
                             const Tokenizer& tokenizer, GgufFile* file) {
  ASSIGN_OR_RETURN(
      const BytePairVocabulary vocabulary,
      LoadBytePairVocabulary(saved.vocabulary_file(), saved.merges_file()));
  std::vector<int32_t> kinds(vocabulary.tokens.size(), kNormal);
  for (size_t id = 0; id < kinds.size(); ++id) {
    if (tokenizer.special_tokens().Contains(static_cast<int32_t>(id))) {
      kinds[id] = kControl;
    }
  }
  return AddBytePairs(vocabulary, kinds, file);
}

absl::Status AddTokenizerJson(const v1::TokenizerSpec& saved, GgufFile* file) {
  ASSIGN_OR_RETURN(const std::string json, ReadFile(saved.tokenizer_file()));
  ASSIGN_OR_RETURN(const HuggingFaceFile found,
                   ParseHuggingFaceFile(json, saved.tokenizer_file()));
  if (found.add_prefix_space) return Refuse("texts get a space in front");
  if (!found.use_regex) return Refuse("texts are not cut into words");
  std::vector<int32_t> kinds(found.vocabulary.tokens.size(), kNormal);
  for (const AddedToken& token : found.added_tokens) {
    if (!token.special && (token.strips_left || token.strips_right)) {
      return Refuse("an added token takes the spaces beside it");
    }
    kinds[token.id] = token.special ? kControl : kUserDefined;
  }
  return AddBytePairs(found.vocabulary, kinds, file);
}

// Tokens with scores.
void AddPieces(const std::vector<Piece>& pieces, GgufFile* file) {
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> kinds;
  for (const Piece& piece : pieces) {
    tokens.push_back(piece.text);
    scores.push_back(piece.score);
    switch (piece.type) {
      case SentencePieceModel::Type::kNormal:
      case SentencePieceModel::Type::kUnused:
        kinds.push_back(kNormal);
        break;
      case SentencePieceModel::Type::kUnknown:
        kinds.push_back(kUnknown);
        break;
      case SentencePieceModel::Type::kControl:
        kinds.push_back(kControl);
        break;
      case SentencePieceModel::Type::kUserDefined:
        kinds.push_back(kUserDefined);
        break;
      case SentencePieceModel::Type::kByte:
        kinds.push_back(kByte);
        break;
    }
  }
  file->Set("tokenizer.ggml.tokens", tokens);
  file->Set("tokenizer.ggml.scores", scores);
  file->Set("tokenizer.ggml.token_type", kinds);
}

absl::Status CheckPieces(const SentencePieceModel& model) {
  const auto has = [&](SentencePieceModel::Type type) {
    return std::any_of(model.pieces.begin(), model.pieces.end(),
                       [&](const Piece& piece) { return piece.type == type; });
  };
  if (!model.escape_spaces) return Refuse("spaces are no U+2581");
  if (has(SentencePieceModel::Type::kUnused)) {
    return Refuse("some pieces are not used");
  }
  if (has(SentencePieceModel::Type::kUserDefined)) {
    return Refuse("pieces that a user defined");
  }
  if (model.kind == SentencePieceModel::Kind::kUnigram) {
    return model.byte_fallback ? Refuse("a unigram model with tokens of bytes")
                               : absl::OkStatus();
  }
  if (!model.byte_fallback) return Refuse("BPE without tokens of bytes");
  if (!model.character_map.empty() || model.remove_extra_spaces) {
    return Refuse("BPE of texts that are normalized before");
  }
  return absl::OkStatus();
}

absl::Status AddSentencePieces(const v1::TokenizerSpec& saved, GgufFile* file) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(saved.tokenizer_file()));
  ASSIGN_OR_RETURN(const SentencePieceModel model,
                   ParseSentencePieceModel(bytes, saved.tokenizer_file()));
  RETURN_IF_ERROR(CheckPieces(model));
  const bool unigram = model.kind == SentencePieceModel::Kind::kUnigram;
  file->Set("tokenizer.ggml.model", unigram ? "t5" : "llama");
  file->Set("tokenizer.ggml.pre", "default");
  AddPieces(model.pieces, file);
  file->Set("tokenizer.ggml.add_space_prefix", model.add_dummy_prefix);
  file->Set("tokenizer.ggml.remove_extra_whitespaces",
            model.remove_extra_spaces);
  if (unigram && !model.character_map.empty()) {
    file->SetBytes("tokenizer.ggml.precompiled_charsmap", model.character_map);
  }
  return absl::OkStatus();
}

// A unigram model of single characters.
absl::Status AddCharacters(const Tokenizer& tokenizer, GgufFile* file) {
  std::vector<Piece> pieces;
  for (int32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    const std::string& token = tokenizer.Token(id);
    if (token == kSpacePiece) {
      return Refuse("U+2581, which stands for a space there, is a character");
    }
    Piece piece = {token == " " ? std::string(kSpacePiece) : token, -1.0f,
                   SentencePieceModel::Type::kNormal};
    if (id == tokenizer.special_tokens().unk) {
      piece.type = SentencePieceModel::Type::kUnknown;
    } else if (id == tokenizer.special_tokens().sep) {
      piece.type = SentencePieceModel::Type::kControl;
    }
    pieces.push_back(std::move(piece));
  }
  file->Set("tokenizer.ggml.model", "t5");
  file->Set("tokenizer.ggml.pre", "default");
  AddPieces(pieces, file);
  file->Set("tokenizer.ggml.add_space_prefix", false);
  file->Set("tokenizer.ggml.remove_extra_whitespaces", false);
  return absl::OkStatus();
}

}  // namespace

absl::Status AddVocabulary(const std::string& from, GgufFile* file) {
  ASSIGN_OR_RETURN(const v1::TokenizerSpec saved, FindSavedTokenizer(from));
  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                   LoadSavedTokenizer(from));
  switch (saved.kind()) {
    case v1::TokenizerSpec::BYTE_BPE:
      RETURN_IF_ERROR(AddOurBytePairs(saved, *tokenizer, file));
      break;
    case v1::TokenizerSpec::HUGGING_FACE:
      RETURN_IF_ERROR(AddTokenizerJson(saved, file));
      break;
    case v1::TokenizerSpec::SENTENCEPIECE:
      RETURN_IF_ERROR(AddSentencePieces(saved, file));
      break;
    case v1::TokenizerSpec::CHARACTERS:
      RETURN_IF_ERROR(AddCharacters(*tokenizer, file));
      break;
    default:
      return Refuse("WordPiece");
  }
  return AddSpecialTokens(*tokenizer, file);
}

}  // namespace comera::trainer
