// Parses scalars strictly, with messages that say what would be right.

#include "proto/scalar_values.h"

#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status_macros.h"

namespace comera {
namespace {

absl::Status Bad(const std::string& text, const char* expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("`", text, "` is not ", expected));
}

// SimpleAtoi and SimpleAtod skip white space, which is an error in job files.
bool HasSpace(const std::string& text) {
  return text.find_first_of(" \t\n\r\f\v") != std::string::npos;
}

}  // namespace

absl::StatusOr<bool> ParseBool(const std::string& text, bool quoted) {
  if (!quoted && text == "true") return true;
  if (!quoted && text == "false") return false;
  return Bad(text, "true or false");
}

absl::StatusOr<int64_t> ParseInt(const std::string& text, bool quoted) {
  int64_t value;
  if (quoted || HasSpace(text) || !absl::SimpleAtoi(text, &value)) {
    return Bad(text, "a whole number in range");
  }
  return value;
}

absl::StatusOr<uint64_t> ParseUint64(const std::string& text) {
  uint64_t value;
  if (HasSpace(text) || !absl::SimpleAtoi(text, &value)) {
    return Bad(text, "a whole number, 0 or above, in range");
  }
  return value;
}

absl::StatusOr<double> ParseDouble(const std::string& text, bool quoted) {
  double value;
  if (quoted || HasSpace(text) || !absl::SimpleAtod(text, &value) ||
      !std::isfinite(value)) {
    return Bad(text, "a finite number");
  }
  return value;
}

absl::StatusOr<int64_t> ParseBytes(const std::string& text) {
  int64_t whole;
  if (!HasSpace(text) && absl::SimpleAtoi(text, &whole)) return whole;
  static constexpr std::pair<const char*, double> kUnits[] = {
      {"KiB", 1024.0},       {"MiB", 1048576.0},
      {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
      {"kB", 1e3},           {"KB", 1e3},
      {"MB", 1e6},           {"GB", 1e9},
      {"TB", 1e12},          {"B", 1.0},
  };
  for (const auto& [unit, factor] : kUnits) {
    const std::string suffix = unit;
    if (text.size() <= suffix.size() ||
        text.compare(text.size() - suffix.size(), suffix.size(), suffix) != 0) {
      continue;
    }
    std::string number = text.substr(0, text.size() - suffix.size());
    number = std::string(absl::StripTrailingAsciiWhitespace(number));
    const auto value = ParseDouble(number, /*quoted=*/false);
    if (!value.ok() || std::abs(*value * factor) >= 9e18) break;
    return static_cast<int64_t>(std::llround(*value * factor));
  }
  return Bad(text, "a size such as 1000, 64MiB or 2GB");
}

absl::StatusOr<DurationParts> ParseDurationText(const std::string& text) {
  absl::Duration value;
  if (HasSpace(text) || !absl::ParseDuration(text, &value) ||
      absl::AbsDuration(value) > absl::Hours(10'000.0 * 366 * 24)) {
    return Bad(text, "a duration such as 90s or 1h30m");
  }
  DurationParts parts;
  parts.seconds = absl::IDivDuration(value, absl::Seconds(1), &value);
  parts.nanos = static_cast<int32_t>(absl::ToInt64Nanoseconds(value));
  return parts;
}

}  // namespace comera
