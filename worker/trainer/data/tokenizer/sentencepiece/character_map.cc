// Looks up strings in the double array of a SentencePiece model.
#include "worker/trainer/data/tokenizer/sentencepiece/character_map.h"

#include <algorithm>

#include "absl/status/status.h"
#include "unicode/utf8.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

// A unit of the array is a node. Its children's places are the exclusive or of
// its own place, its offset and the child's byte; that of byte 0 holds the
// value of the string that ends at the node.
constexpr uint32_t kIsValue = uint32_t{1} << 31;

uint32_t Label(uint32_t unit) { return unit & (kIsValue | 0xff); }
uint32_t Offset(uint32_t unit) {
  const bool large = (unit & (uint32_t{1} << 9)) != 0;
  return unit >> 10 << (large ? 8 : 0);
}
bool EndsString(uint32_t unit) { return (unit & (uint32_t{1} << 8)) != 0; }
uint32_t Value(uint32_t unit) { return unit & ~kIsValue; }

uint32_t LittleEndian(absl::string_view bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) {
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

}  // namespace

absl::StatusOr<CharacterMap> CharacterMap::Parse(absl::string_view bytes) {
  CharacterMap map;
  if (bytes.empty()) return map;
  const absl::Status malformed =
      absl::DataLossError("normalizer_spec.precompiled_charsmap: malformed");
  if (bytes.size() < 4) return malformed;
  const uint32_t size = LittleEndian(bytes);
  bytes.remove_prefix(4);
  if (size == 0 || size % 4 != 0 || size > bytes.size()) return malformed;
  map.units_.reserve(size / 4);
  for (uint32_t i = 0; i < size; i += 4) {
    map.units_.push_back(LittleEndian(bytes.substr(i)));
  }
  bytes.remove_prefix(size);
  if (!IsValidUtf8(bytes)) return malformed;
  map.replacements_ = std::string(bytes);
  return map;
}

CharacterMap::Match CharacterMap::Longest(absl::string_view text) const {
  Match longest;
  if (units_.empty()) return longest;
  uint32_t node = Offset(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (node >= units_.size() || Label(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= Offset(unit);
    if (!EndsString(unit)) continue;
    if (node >= units_.size()) break;
    const uint32_t begin = Value(units_[node]);
    if (begin >= replacements_.size()) break;
    // A position inside a character is not one that rules are made with.
    if (U8_IS_TRAIL(replacements_[begin])) break;
    const size_t end =
        std::min(replacements_.find('\0', begin), replacements_.size());
    longest.length = i + 1;
    longest.replacement =
        absl::string_view(replacements_).substr(begin, end - begin);
  }
  return longest;
}

}  // namespace comera::trainer
