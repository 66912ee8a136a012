// Colours of the CLI: what they mean, and when they are used.
#ifndef COMERA_CLIENT_CLI_OUTPUT_STYLE_H_
#define COMERA_CLIENT_CLI_OUTPUT_STYLE_H_

#include <string>
#include <string_view>
#include <vector>

namespace comera::client {

// What a piece of text is. Colours repeat what the words say: without them
// nothing is lost.
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

// Text and its tone; a line of a picture is several.
struct Span {
  std::string text;
  Tone tone = Tone::kPlain;
};
using StyledLine = std::vector<Span>;

// `text` between the terminal's codes for `tone`; as it is without `color`.
std::string Paint(Tone tone, std::string_view text, bool color);
std::string Paint(const StyledLine& line, bool color);

// The text alone.
std::string PlainText(const StyledLine& line);
// At most `width` columns of it.
StyledLine CutLine(const StyledLine& line, int width);

// Of a job's, run's or worker's state, as it is written: "SUCCEEDED
// TARGET_MET", "draining".
Tone ToneOfState(std::string_view state);

// What decides about colours, strongest first.
struct ColorChoice {
  // --color: always, never, or auto (empty means auto).
  std::string flag;
  // NO_COLOR is set and not empty.
  bool no_color = false;
  // CLICOLOR_FORCE is set, not empty and not 0.
  bool force_color = false;
  // The output is a terminal, and TERM is not dumb.
  bool terminal = false;
};
bool UseColor(const ColorChoice& choice);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_OUTPUT_STYLE_H_
