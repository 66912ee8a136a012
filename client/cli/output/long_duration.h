#ifndef COMERA_CLIENT_CLI_OUTPUT_LONG_DURATION_H_
#define COMERA_CLIENT_CLI_OUTPUT_LONG_DURATION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/time/time.h"

namespace comera::client {

// Parses "30d", "2w" or what absl::ParseDuration accepts ("36h"); above zero.
inline std::optional<absl::Duration> ParseLongDuration(
    const std::string& text) {
  absl::Duration duration;
  int64_t number = 0;
  const char unit = text.empty() ? '\0' : text.back();
  if ((unit == 'd' || unit == 'w') &&
      absl::SimpleAtoi(text.substr(0, text.size() - 1), &number)) {
    if (number > 1000000) return std::nullopt;
    duration = absl::Hours(24) * number * (unit == 'w' ? 7 : 1);
  } else if (!absl::ParseDuration(text, &duration)) {
    return std::nullopt;
  }
  if (duration <= absl::ZeroDuration() ||
      duration == absl::InfiniteDuration()) {
    return std::nullopt;
  }
  return duration;
}

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_OUTPUT_LONG_DURATION_H_
