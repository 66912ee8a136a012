// Decides what the CLI's colours mean and when they are used.
#ifndef COMERA_CLIENT_CLI_OUTPUT_STYLE_H_
#define COMERA_CLIENT_CLI_OUTPUT_STYLE_H_

#include <string>
#include <string_view>
#include <vector>

namespace comera::client {

// The meaning of a piece of text. Colours only repeat what the words say, so
// that nothing is lost without them.
enum class Tone {
  kPlain,
  kStrong,    // headers, titles
  kFaint,     // axes, hints
  kGood,      // met, succeeded, in service
  kBad,       // failed, lost
  kWarning,   // missed, paused, draining
  kActive,    // running
  kSelected,  // the line that keys act on
};

// Text with its tone; a line consists of several.
struct Span {
  std::string text;
  Tone tone = Tone::kPlain;
};
using StyledLine = std::vector<Span>;

// Returns `text` between the terminal's codes for `tone`, or unchanged without
// `color`.
std::string Paint(Tone tone, std::string_view text, bool color);
std::string Paint(const StyledLine& line, bool color);

// Returns the text without tones.
std::string PlainText(const StyledLine& line);
// Cuts the line to at most `width` columns.
StyledLine CutLine(const StyledLine& line, int width);

// The tone for the state of a job, run or worker, as it is printed: "SUCCEEDED
// TARGET_MET", "draining".
Tone ToneOfState(std::string_view state);

// The settings that decide about colours, strongest first.
struct ColorChoice {
  // The value of --color: always, never, or auto (empty means auto).
  std::string flag;
  // Whether NO_COLOR is set and not empty.
  bool no_color = false;
  // Whether CLICOLOR_FORCE is set, not empty and not 0.
  bool force_color = false;
  // Whether the output is a terminal, and TERM is not dumb.
  bool terminal = false;
};
bool UseColor(const ColorChoice& choice);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_OUTPUT_STYLE_H_
