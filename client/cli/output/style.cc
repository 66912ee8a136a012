// Maps tones to terminal codes and states to tones.

#include "client/cli/output/style.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cli/output/text_format.h"

namespace comera::client {
namespace {

// Uses the sixteen colours that every terminal has and the user's theme
// chooses.
const char* Code(Tone tone) {
  switch (tone) {
    case Tone::kStrong:
      return "\x1b[1m";
    case Tone::kFaint:
      return "\x1b[2m";
    case Tone::kGood:
      return "\x1b[32m";
    case Tone::kBad:
      return "\x1b[31m";
    case Tone::kWarning:
      return "\x1b[33m";
    case Tone::kActive:
      return "\x1b[36m";
    case Tone::kSelected:
      return "\x1b[7m";
    case Tone::kPlain:
      break;
  }
  return "";
}

bool Has(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

}  // namespace

std::string Paint(Tone tone, std::string_view text, bool color) {
  if (!color || tone == Tone::kPlain || text.empty()) return std::string(text);
  return std::string(Code(tone)).append(text).append("\x1b[0m");
}

std::string Paint(const StyledLine& line, bool color) {
  std::string text;
  for (const Span& span : line) text += Paint(span.tone, span.text, color);
  return text;
}

std::string PlainText(const StyledLine& line) { return Paint(line, false); }

StyledLine CutLine(const StyledLine& line, int width) {
  StyledLine cut;
  int left = width;
  for (const Span& span : line) {
    if (left <= 0) break;
    const std::string text = CutToWidth(span.text, left);
    left -= static_cast<int>(DisplayWidth(text));
    cut.push_back({text, span.tone});
    // A wide character of which only half would fit ends the line.
    if (text.size() < span.text.size()) break;
  }
  return cut;
}

Tone ToneOfState(std::string_view state) {
  if (Has(state, "TARGET_MISSED")) return Tone::kWarning;
  if (Has(state, "SUCCEEDED") || state == "in service") return Tone::kGood;
  if (Has(state, "FAILED") || state == "excluded" || state == "away") {
    return Tone::kBad;
  }
  if (Has(state, "RUNNING") || Has(state, "STARTING") || state == "ACTIVE") {
    return Tone::kActive;
  }
  if (Has(state, "CANCEL") || Has(state, "PAUSED") || Has(state, "STOPPED") ||
      state == "draining" || state == "drained") {
    return Tone::kWarning;
  }
  return Tone::kPlain;
}

bool UseColor(const ColorChoice& choice) {
  if (choice.flag == "always") return true;
  if (choice.flag == "never" || choice.no_color) return false;
  return choice.force_color || choice.terminal;
}

}  // namespace comera::client
