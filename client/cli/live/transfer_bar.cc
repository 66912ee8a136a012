// Prints the progress of transfers at intervals that suit the output.

#include "client/cli/live/transfer_bar.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/output/text_format.h"

namespace comera::client {
namespace {

constexpr int kBarWidth = 24;
constexpr absl::Duration kRedraw = absl::Milliseconds(100);
constexpr absl::Duration kLine = absl::Seconds(10);

}  // namespace

void TransferBar::Show(const std::string& what, int64_t done, int64_t total,
                       const std::string& more) {
  const absl::Time now = absl::Now();
  if (what != what_) {
    End();
    what_ = what;
    began_ = now;
    // Without a terminal, short transfers print nothing.
    last_ = session_.env.err_is_terminal ? absl::InfinitePast() : now;
    first_ = done;
  }
  const bool terminal = session_.env.err_is_terminal;
  if (now - last_ < (terminal ? kRedraw : kLine)) return;
  last_ = now;
  const double share =
      total > 0 ? std::clamp(static_cast<double>(done) / total, 0.0, 1.0) : 1;
  const double seconds = absl::ToDoubleSeconds(now - began_);
  const double rate = seconds > 0 ? (done - first_) / seconds : 0;
  std::string line =
      total > 0 ? absl::StrFormat("%s %3.0f%%  %s of %s", what, 100 * share,
                                  FormatBytes(done), FormatBytes(total))
                : absl::StrCat(what, "  ", FormatBytes(done));
  if (seconds > 1 && rate > 0) {
    absl::StrAppend(&line, "  ", FormatBytes(rate), "/s");
    if (total > 0) {
      absl::StrAppend(&line, "  ",
                      DurationText(absl::Seconds((total - done) / rate)),
                      " left");
    }
  }
  if (!more.empty()) absl::StrAppend(&line, "  ", more);
  if (!terminal) return session_.Note(line);
  const int filled = static_cast<int>(share * kBarWidth);
  *session_.env.err << "\r\033[K";
  if (total > 0) {
    *session_.env.err << "[" << std::string(filled, '#')
                      << std::string(kBarWidth - filled, '.') << "] ";
  }
  *session_.env.err << line << std::flush;
  open_ = true;
}

void TransferBar::End() {
  if (open_) *session_.env.err << "\r\033[K" << std::flush;
  open_ = false;
}

}  // namespace comera::client
