// Makes text that others wrote safe for a terminal.
#ifndef COMERA_CLIENT_CLI_OUTPUT_TERMINAL_TEXT_H_
#define COMERA_CLIENT_CLI_OUTPUT_TERMINAL_TEXT_H_

#include <string>
#include <string_view>

namespace comera::client {

// Takes from a text that comes in pieces what terminals obey, and keeps its
// lines and tabs. A carriage return begins a new line, so that nothing hides
// what stands before it, and bytes that are not UTF-8 become U+FFFD. Not
// thread-safe.
class TerminalText {
 public:
  // Returns what can be shown of the pieces so far and was not returned before:
  // the start of a character waits for its end, because two harmless pieces may
  // hold a control character between them.
  std::string Add(std::string_view piece);
  // Returns what is still held back; the text ends there.
  std::string End();

 private:
  std::string held_;
};

// A whole text, made safe in the same way.
std::string ForTerminal(std::string_view text);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_OUTPUT_TERMINAL_TEXT_H_
