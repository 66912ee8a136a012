// Passes on what a program prints, and finds the exception in it.
#include "worker/trainer/program/program_output.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/files.h"
#include "common/text.h"

namespace comera::trainer {
namespace {

constexpr size_t kTailBytes = 4096;
constexpr size_t kReadBytes = size_t{64} << 10;
constexpr size_t kMaxExceptionBytes = 512;
// Python prints the exception last; what libraries say at exit may follow.
constexpr int kLastLines = 8;

void WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    // On a full disk, the program goes on without its log.
    if (count <= 0) return;
    text.remove_prefix(static_cast<size_t>(count));
  }
}

// Whether the line is the name of a class, with or without its module, that
// ends as those of exceptions do, and a colon or the end behind it.
bool NamesException(absl::string_view line) {
  const absl::string_view name = line.substr(0, line.find(':'));
  return !name.empty() &&
         std::all_of(name.begin(), name.end(),
                     [](char c) {
                       return absl::ascii_isalnum(c) || c == '_' || c == '.';
                     }) &&
         (absl::EndsWith(name, "Error") || absl::EndsWith(name, "Exception") ||
          absl::EndsWith(name, "Interrupt"));
}

}  // namespace

std::string LastExceptionIn(std::string_view text) {
  const std::vector<absl::string_view> lines =
      absl::StrSplit(absl::string_view(text.data(), text.size()), '\n',
                     absl::SkipWhitespace());
  int left = kLastLines;
  for (auto line = lines.rbegin(); line != lines.rend() && left-- > 0; ++line) {
    if (NamesException(*line)) {
      return TruncateUtf8(std::string(*line), kMaxExceptionBytes);
    }
  }
  return "";
}

absl::StatusOr<ProgramOutput> ProgramOutput::Make(int to) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  ProgramOutput output(ends[0], ends[1], to);
  if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) {
    return ErrnoStatus(errno, "fcntl");
  }
  return output;
}

ProgramOutput::ProgramOutput(ProgramOutput&& other) noexcept
    : read_(std::exchange(other.read_, -1)),
      write_(std::exchange(other.write_, -1)),
      to_(other.to_),
      tail_(std::move(other.tail_)) {}

ProgramOutput::~ProgramOutput() {
  CloseWriteEnd();
  if (read_ >= 0) close(read_);
}

void ProgramOutput::CloseWriteEnd() {
  if (write_ >= 0) close(write_);
  write_ = -1;
}

void ProgramOutput::PassOn() {
  std::string buffer(kReadBytes, '\0');
  while (read_ >= 0) {
    const ssize_t count = read(read_, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) {
      // Nobody can write any more; its end would be readable for ever.
      close(read_);
      read_ = -1;
    }
    if (count <= 0) return;
    const absl::string_view text(buffer.data(), static_cast<size_t>(count));
    WriteAll(to_, text);
    absl::StrAppend(&tail_, text);
    if (tail_.size() > kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
  }
}

std::string ProgramOutput::LastException() const {
  return LastExceptionIn(tail_);
}

}  // namespace comera::trainer
