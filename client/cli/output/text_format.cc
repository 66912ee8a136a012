// Formats numbers, sizes, times and states, and measures UTF-8 text on
// terminals.

#include "client/cli/output/text_format.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "unicode/uchar.h"
#include "unicode/utf8.h"

namespace comera::client {
namespace {

// The columns of the character at `*i`, which moves behind it. A byte that is
// not UTF-8 counts as one.
int CharacterWidth(std::string_view text, int32_t* i) {
  UChar32 character = 0;
  const int32_t size = static_cast<int32_t>(text.size());
  U8_NEXT(text.data(), *i, size, character);
  if (character < 0x300) return 1;
  const uint32_t category = U_MASK(u_charType(character));
  if ((category & (U_GC_MN_MASK | U_GC_ME_MASK | U_GC_CF_MASK)) != 0) return 0;
  const int width = u_getIntPropertyValue(character, UCHAR_EAST_ASIAN_WIDTH);
  return width == U_EA_WIDE || width == U_EA_FULLWIDTH ? 2 : 1;
}

// Whether these last two bytes belong to U+202A to U+202E or U+2066 to U+2069.
bool TurnsDirection(unsigned char second, unsigned char third) {
  return (second == 0x80 && third >= 0xAA && third <= 0xAE) ||
         (second == 0x81 && third >= 0xA6 && third <= 0xA9);
}

}  // namespace

std::string DurationText(absl::Duration duration) {
  int64_t seconds = std::max<int64_t>(0, absl::ToInt64Seconds(duration));
  // Beyond any real job, e.g. an infinite duration.
  seconds = std::min<int64_t>(seconds, int64_t{100'000} * 86400);
  const int64_t minutes = seconds / 60;
  const int64_t hours = minutes / 60;
  if (minutes == 0) return absl::StrFormat("%ds", seconds);
  if (hours == 0) return absl::StrFormat("%dm%02ds", minutes, seconds % 60);
  if (hours < 48) return absl::StrFormat("%dh%02dm", hours, minutes % 60);
  return absl::StrFormat("%dd%02dh", hours / 24, hours % 24);
}

std::string FormatBytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (std::abs(bytes) >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  if (unit == 0) return absl::StrFormat("%.0f B", bytes);
  return absl::StrFormat(bytes < 100 ? "%.2f %s" : "%.0f %s", bytes,
                         kUnits[unit]);
}

std::string FormatJoules(double joules) {
  static constexpr const char* kUnits[] = {"J", "kJ", "MJ", "GJ"};
  int unit = 0;
  while (std::abs(joules) >= 1000 && unit < 3) {
    joules /= 1000;
    ++unit;
  }
  return absl::StrFormat(joules < 100 ? "%.2f %s" : "%.0f %s", joules,
                         kUnits[unit]);
}

std::string FormatCount(int64_t count) {
  std::string digits = absl::StrCat(count);
  const int first = count < 0 ? 1 : 0;
  for (int i = static_cast<int>(digits.size()) - 3; i > first; i -= 3) {
    digits.insert(i, ",");
  }
  return digits;
}

std::string FormatShort(double count) {
  if (std::abs(count) < 1e3) return absl::StrFormat("%.0f", count);
  if (std::abs(count) < 1e6) return absl::StrFormat("%.1fk", count / 1e3);
  if (std::abs(count) < 1e9) return absl::StrFormat("%.2fM", count / 1e6);
  return absl::StrFormat("%.2fG", count / 1e9);
}

std::string FormatFigure(double value) {
  return absl::StrFormat("%#.4g", value);
}

absl::Time ToTime(const google::protobuf::Timestamp& timestamp) {
  return absl::FromUnixSeconds(timestamp.seconds()) +
         absl::Nanoseconds(timestamp.nanos());
}

absl::Duration ToDuration(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) +
         absl::Nanoseconds(duration.nanos());
}

std::string LastSegment(const std::string& name) {
  const size_t slash = name.rfind('/');
  return slash == std::string::npos ? name : name.substr(slash + 1);
}

std::string StateText(const v1::Job& job) {
  const std::string state = v1::JobState_Name(job.state());
  if (job.state() == v1::SUCCEEDED) {
    return absl::StrCat(state, " ", v1::Outcome_Name(job.outcome()));
  }
  if (job.state() == v1::FAILED) {
    return absl::StrCat(
        state, " (", v1::FailureClass_Name(job.failure().failure_class()), ")");
  }
  return state;
}

std::string Printable(std::string_view text) {
  std::string result(text);
  for (size_t i = 0; i < result.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(result[i]);
    if (c < 0x20 || c == 0x7F) result[i] = ' ';
    // The characters U+0080 to U+009F, some of which control terminals.
    if (c == 0xC2 && i + 1 < result.size() &&
        static_cast<unsigned char>(result[i + 1]) < 0xA0) {
      result[i] = result[i + 1] = ' ';
    }
    if (c == 0xE2 && i + 2 < result.size() &&
        TurnsDirection(result[i + 1], result[i + 2])) {
      result[i] = result[i + 1] = result[i + 2] = ' ';
    }
  }
  return result;
}

size_t DisplayWidth(std::string_view text) {
  size_t columns = 0;
  int32_t i = 0;
  const int32_t size = static_cast<int32_t>(text.size());
  while (i < size) columns += CharacterWidth(text, &i);
  return columns;
}

std::string CutToWidth(const std::string& text, size_t width) {
  size_t columns = 0;
  int32_t i = 0;
  const int32_t size = static_cast<int32_t>(text.size());
  while (i < size) {
    const int32_t begin = i;
    columns += CharacterWidth(text, &i);
    if (columns > width) return text.substr(0, begin);
  }
  return text;
}

std::string Shortened(const std::string& text, size_t width) {
  if (DisplayWidth(text) <= width) return text;
  return width == 0 ? "" : absl::StrCat(CutToWidth(text, width - 1), "…");
}

std::string FormatTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(row[i]));
    }
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) {
        text.append(widths[i] - DisplayWidth(row[i]) + 2, ' ');
      }
    }
    text += '\n';
  }
  return text;
}

}  // namespace comera::client
