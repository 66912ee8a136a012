// Reads lines piece by piece.
#include "worker/trainer/predict/line_input.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/files.h"

namespace comera::trainer {

absl::Status LineInput::Read() {
  constexpr size_t kPiece = size_t{1} << 16;
  buffer_.erase(0, begin_);
  searched_ -= begin_;
  begin_ = 0;
  const size_t before = buffer_.size();
  buffer_.resize(before + kPiece);
  const ssize_t got = read(descriptor_, buffer_.data() + before, kPiece);
  const int error = errno;
  buffer_.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0 && (error == EINTR || error == EAGAIN)) return absl::OkStatus();
  if (got < 0) return ErrnoStatus(error, "standard input");
  ended_ = got == 0;
  return absl::OkStatus();
}

absl::StatusOr<bool> LineInput::PopLine(std::string* line) {
  const size_t found = buffer_.find('\n', searched_);
  const bool whole = found != std::string::npos;
  const size_t end = whole ? found : buffer_.size();
  if (end - begin_ > longest_line_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a request of more than ", longest_line_, " bytes"));
  }
  searched_ = end;
  if (!whole && (!ended_ || end == begin_)) return false;
  line->assign(buffer_, begin_, end - begin_);
  begin_ = searched_ = whole ? end + 1 : end;
  return true;
}

}  // namespace comera::trainer
