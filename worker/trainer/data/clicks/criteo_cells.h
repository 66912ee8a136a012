// Single cells of Criteo's files.
#ifndef COMERA_WORKER_TRAINER_DATA_CLICKS_CRITEO_CELLS_H_
#define COMERA_WORKER_TRAINER_DATA_CLICKS_CRITEO_CELLS_H_

#include <cmath>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace comera::trainer {

inline constexpr size_t kCriteoDigits = 15;

// Up to 18 digits, perhaps after a minus sign; nothing is 0.
inline bool ParseCriteoInteger(absl::string_view text, int64_t* value) {
  *value = 0;
  const bool negative = !text.empty() && text[0] == '-';
  if (negative) text.remove_prefix(1);
  if (text.size() > 18 || (negative && text.empty())) return false;
  for (char c : text) {
    if (c < '0' || c > '9') return false;
    *value = 10 * *value + (c - '0');
  }
  if (negative) *value = -*value;
  return true;
}

// A count as the model takes it: log(x + 1), 0 where there is none.
inline float CriteoNumber(double count) {
  return count <= 0 ? 0.0f : static_cast<float>(std::log1p(count));
}

// Hexadecimal digits, packed with their number so that "0a" is not "a"; nothing
// is 0.
inline bool ParseCriteoCategory(absl::string_view text, uint64_t* value) {
  if (text.size() > kCriteoDigits) return false;
  *value = 0;
  for (char c : text) {
    int digit = 0;
    if (c >= '0' && c <= '9') {
      digit = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      digit = c - 'a' + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = c - 'A' + 10;
    } else {
      return false;
    }
    *value = 16 * *value + static_cast<uint64_t>(digit);
  }
  *value |= static_cast<uint64_t>(text.size()) << 60;
  return true;
}

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CLICKS_CRITEO_CELLS_H_
