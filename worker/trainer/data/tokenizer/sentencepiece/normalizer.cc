// Normalizes a text, a character at a time.
#include "worker/trainer/data/tokenizer/sentencepiece/normalizer.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "unicode/utf8.h"

namespace comera::trainer {
namespace {

constexpr absl::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// Length of the character that `text` begins with, 0 if it is not UTF-8.
size_t CharacterLength(absl::string_view text) {
  int64_t end = 0;
  UChar32 c = 0;
  U8_NEXT(text.data(), end, static_cast<int64_t>(text.size()), c);
  return c < 0 ? 0 : static_cast<size_t>(end);
}

}  // namespace

absl::StatusOr<SentencePieceNormalizer> SentencePieceNormalizer::Create(
    const SentencePieceModel& model) {
  ASSIGN_OR_RETURN(CharacterMap rules,
                   CharacterMap::Parse(model.character_map));
  return SentencePieceNormalizer(model, std::move(rules));
}

SentencePieceNormalizer::SentencePieceNormalizer(
    const SentencePieceModel& model, CharacterMap rules)
    : add_dummy_prefix_(model.add_dummy_prefix),
      remove_extra_spaces_(model.remove_extra_spaces),
      space_(model.escape_spaces ? kSpacePiece : " "),
      rules_(std::move(rules)) {
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type == SentencePieceModel::Type::kUserDefined) {
      user_defined_.Add(model.pieces[id].text, static_cast<int32_t>(id));
    }
  }
}

SentencePieceNormalizer::Step SentencePieceNormalizer::First(
    absl::string_view text) const {
  if (const size_t length = user_defined_.Longest(text).length; length > 0) {
    return {length, text.substr(0, length)};
  }
  const CharacterMap::Match rule = rules_.Longest(text);
  if (rule.length > 0) return {rule.length, rule.replacement};
  const size_t length = CharacterLength(text);
  if (length == 0) return {1, kReplacement};
  return {length, text.substr(0, length)};
}

void SentencePieceNormalizer::Normalize(absl::string_view text,
                                        const Emit& emit) const {
  if (remove_extra_spaces_) {
    while (!text.empty()) {
      const Step step = First(text);
      if (step.result != " ") break;
      text.remove_prefix(step.length);
    }
  }
  if (text.empty()) return;

  // Spaces wait for what follows them where those at the end are to go.
  int64_t waiting = 0;
  const auto flush = [&] {
    for (; waiting > 0; --waiting) emit(space_);
  };
  if (add_dummy_prefix_) ++waiting;
  bool after_space = remove_extra_spaces_;
  while (!text.empty()) {
    const Step step = First(text);
    absl::string_view result = step.result;
    while (after_space && absl::ConsumePrefix(&result, " ")) {
    }
    if (!result.empty()) {
      after_space = remove_extra_spaces_ && absl::EndsWith(result, " ");
    }
    while (!result.empty()) {
      const size_t length = result[0] == ' ' ? 1 : CharacterLength(result);
      const absl::string_view character = result.substr(0, length);
      result.remove_prefix(length);
      if (character == " " || character == space_) {
        ++waiting;
        continue;
      }
      flush();
      emit(character);
    }
    text.remove_prefix(step.length);
  }
  if (!remove_extra_spaces_) flush();
}

}  // namespace comera::trainer
