// Uses the whole terminal as a screen of lines.
#ifndef COMERA_CLIENT_CLI_LIVE_TERMINAL_SCREEN_H_
#define COMERA_CLIENT_CLI_LIVE_TERMINAL_SCREEN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/output/style.h"

namespace comera::client {

enum class Key {
  kNone,  // no key was pressed in time, or Wake was called
  kText,  // a character
  kUp,
  kDown,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kEnter,
  kEscape,
  kBackspace,
  kResize,
  kClosed,  // the terminal was closed
};

struct KeyPress {
  Key key = Key::kNone;
  std::string text;  // the character in UTF-8, for kText
};

// The alternate screen of the terminal on standard input and output, through
// ncurses; only one may exist. The terminal is restored when it is destroyed,
// and also when a signal ends the process. Wake may be called from any thread,
// all other methods from one.
class TerminalScreen {
 public:
  // FailedPrecondition: TERM names no terminal with the needed abilities.
  static absl::StatusOr<std::unique_ptr<TerminalScreen>> Open(bool color);
  ~TerminalScreen();

  // Restores the terminal; nothing but the destructor may follow.
  void Close();

  int width() const;
  int height() const;
  // Draws lines from the top; the rest of the screen is blank.
  void Draw(const std::vector<StyledLine>& lines);
  // Returns the next key; kNone after `timeout` or Wake.
  KeyPress Wait(absl::Duration timeout);
  void Wake();

 private:
  TerminalScreen() = default;
  bool color_ = false;
  bool open_ = true;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_LIVE_TERMINAL_SCREEN_H_
