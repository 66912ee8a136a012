// Drives ncurses: drawing, keys, waking, and restoring the terminal on fatal
// signals.

#define _XOPEN_SOURCE_EXTENDED 1
#include "client/cli/live/terminal_screen.h"

#include <curses.h>
#include <fcntl.h>
#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <clocale>
#include <cstring>
#include <cwchar>

#include "absl/status/status.h"

namespace comera::client {
namespace {

// State for signal handlers, which get no argument.
std::atomic<int> g_wake{-1};
termios g_modes;
char g_leave[256];
size_t g_leave_size = 0;

constexpr int kFatal[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE,
                          SIGILL,  SIGQUIT, SIGHUP};

enum Pair { kGoodPair = 1, kBadPair, kWarningPair, kActivePair };

void WakeByPipe() {
  const int saved = errno;
  const char byte = 'w';
  // A full pipe wakes the reader as well.
  if (write(g_wake, &byte, 1) < 0) errno = saved;
  errno = saved;
}

void OnResize(int) { WakeByPipe(); }

// Restores the terminal, then ends the process as the signal would.
void OnFatal(int number) {
  ssize_t written = write(STDOUT_FILENO, g_leave, g_leave_size);
  static_cast<void>(written);
  tcsetattr(STDIN_FILENO, TCSANOW, &g_modes);
  signal(number, SIG_DFL);
  raise(number);
}

void Handle(int number, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

// Remembers the terminal's codes that end the screen, without padding, which no
// current terminal needs.
void RememberLeave() {
  g_leave_size = 0;
  for (const char* name : {"sgr0", "cnorm", "rmkx", "rmcup"}) {
    const char* code = tigetstr(name);
    if (code == nullptr || code == reinterpret_cast<char*>(-1)) continue;
    const size_t size = strcspn(code, "$");
    if (g_leave_size + size > sizeof(g_leave)) break;
    memcpy(g_leave + g_leave_size, code, size);
    g_leave_size += size;
  }
}

attr_t Attributes(Tone tone, bool color) {
  switch (tone) {
    case Tone::kStrong:
      return A_BOLD;
    case Tone::kFaint:
      return A_DIM;
    case Tone::kSelected:
      return A_REVERSE;
    case Tone::kGood:
      return color ? COLOR_PAIR(kGoodPair) : A_NORMAL;
    case Tone::kBad:
      return color ? COLOR_PAIR(kBadPair) : A_NORMAL;
    case Tone::kWarning:
      return color ? COLOR_PAIR(kWarningPair) : A_NORMAL;
    case Tone::kActive:
      return color ? COLOR_PAIR(kActivePair) : A_NORMAL;
    case Tone::kPlain:
      break;
  }
  return A_NORMAL;
}

KeyPress Special(wint_t code) {
  switch (code) {
    case KEY_UP:
      return {Key::kUp, ""};
    case KEY_DOWN:
      return {Key::kDown, ""};
    case KEY_PPAGE:
      return {Key::kPageUp, ""};
    case KEY_NPAGE:
      return {Key::kPageDown, ""};
    case KEY_HOME:
      return {Key::kHome, ""};
    case KEY_END:
      return {Key::kEnd, ""};
    case KEY_ENTER:
      return {Key::kEnter, ""};
    case KEY_BACKSPACE:
      return {Key::kBackspace, ""};
    case KEY_RESIZE:
      return {Key::kResize, ""};
    default:
      return {};
  }
}

KeyPress Character(wint_t code) {
  switch (code) {
    case '\n':
    case '\r':
      return {Key::kEnter, ""};
    case 0x1B:
      return {Key::kEscape, ""};
    case 0x7F:
    case '\b':
      return {Key::kBackspace, ""};
    default:
      break;
  }
  if (code < ' ') return {};
  char text[MB_LEN_MAX + 1] = {};
  std::mbstate_t state = {};
  const size_t size = wcrtomb(text, static_cast<wchar_t>(code), &state);
  if (size == static_cast<size_t>(-1)) return {};
  return {Key::kText, std::string(text, size)};
}

int g_pipe[2] = {-1, -1};

}  // namespace

absl::StatusOr<std::unique_ptr<TerminalScreen>> TerminalScreen::Open(
    bool color) {
  // Sets a UTF-8 locale under any name, for widths and bytes of characters.
  setlocale(LC_CTYPE, "");
  if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) {
    setlocale(LC_CTYPE, "C.UTF-8");
  }
  if (tcgetattr(STDIN_FILENO, &g_modes) != 0 ||
      newterm(nullptr, stdout, stdin) == nullptr) {
    return absl::FailedPreconditionError(
        "TERM names no terminal that has a screen");
  }
  if (pipe2(g_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
    endwin();
    return absl::UnavailableError("no descriptors left");
  }
  g_wake = g_pipe[1];
  RememberLeave();
  std::unique_ptr<TerminalScreen> screen(new TerminalScreen());
  screen->color_ = color && has_colors();
  if (screen->color_) {
    start_color();
    use_default_colors();
    init_pair(kGoodPair, COLOR_GREEN, -1);
    init_pair(kBadPair, COLOR_RED, -1);
    init_pair(kWarningPair, COLOR_YELLOW, -1);
    init_pair(kActivePair, COLOR_CYAN, -1);
  }
  // Keeps Ctrl-C as a signal.
  cbreak();
  noecho();
  nonl();
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  set_escdelay(25);
  curs_set(0);
  Handle(SIGWINCH, OnResize);
  for (const int number : kFatal) Handle(number, OnFatal);
  return screen;
}

void TerminalScreen::Close() {
  if (!open_) return;
  open_ = false;
  endwin();
  for (const int number : kFatal) Handle(number, SIG_DFL);
  Handle(SIGWINCH, SIG_DFL);
}

TerminalScreen::~TerminalScreen() {
  Close();
  g_wake = -1;
  close(g_pipe[0]);
  close(g_pipe[1]);
}

int TerminalScreen::width() const { return COLS; }
int TerminalScreen::height() const { return LINES; }

void TerminalScreen::Draw(const std::vector<StyledLine>& lines) {
  erase();
  for (int y = 0; y < LINES && y < static_cast<int>(lines.size()); ++y) {
    wmove(stdscr, y, 0);
    for (const Span& span : CutLine(lines[y], COLS)) {
      const attr_t attributes = Attributes(span.tone, color_);
      wattron(stdscr, attributes);
      waddnstr(stdscr, span.text.c_str(), static_cast<int>(span.text.size()));
      wattroff(stdscr, attributes);
    }
  }
  refresh();
}

KeyPress TerminalScreen::Wait(absl::Duration timeout) {
  // Input that ncurses has read already.
  wint_t code = 0;
  int kind = get_wch(&code);
  if (kind == ERR) {
    pollfd sources[] = {{STDIN_FILENO, POLLIN, 0}, {g_pipe[0], POLLIN, 0}};
    poll(sources, 2, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
    char bytes[64];
    while (read(g_pipe[0], bytes, sizeof(bytes)) > 0) {
    }
    winsize size = {};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 &&
        size.ws_col > 0 && (size.ws_row != LINES || size.ws_col != COLS)) {
      resizeterm(size.ws_row, size.ws_col);
      // Redraws everything, because terminals differ in what they keep when
      // they shrink.
      clearok(stdscr, TRUE);
      return {Key::kResize, ""};
    }
    if ((sources[0].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) {
      return {Key::kClosed, ""};
    }
    if ((sources[0].revents & POLLIN) == 0) return {};
    kind = get_wch(&code);
  }
  if (kind == KEY_CODE_YES) return Special(code);
  return kind == OK ? Character(code) : KeyPress{};
}

void TerminalScreen::Wake() { WakeByPipe(); }

}  // namespace comera::client
