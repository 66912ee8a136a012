#ifndef COMERA_CLIENT_PREDICT_LINE_SOURCE_H_
#define COMERA_CLIENT_PREDICT_LINE_SOURCE_H_

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace comera::client {

// Lines of a file, plain or gzip, or of standard input, in bounded memory.
//
// Not thread-safe.
class LineSource {
 public:
  static constexpr size_t kMaxLineBytes = size_t{16} << 20;

  // "-": standard input, which is not unpacked. NotFound, PermissionDenied,
  // InvalidArgument: a folder.
  static absl::StatusOr<std::unique_ptr<LineSource>> Open(
      const std::string& path);
  ~LineSource();

  // The next line without its end (LF or CRLF), valid until the next call;
  // false at the end. InvalidArgument, with file and line: longer than the
  // limit, a NUL byte, not UTF-8, damaged gzip.
  absl::StatusOr<bool> Next(absl::string_view* line);
  // From any thread: wakes a call of Next that waits for standard input, which
  // then ends as at the end of the file.
  void Stop();
  // Whether a call of Next may have to wait for whoever writes.
  bool MayWait() const;

  // Of the last line, from 1.
  int64_t line_number() const { return line_number_; }
  // InvalidArgument at the last line.
  absl::Status Error(absl::string_view what) const;

 private:
  LineSource();
  // Waits for standard input; false after Stop.
  bool Await() const;
  // Fills the buffer; false at the end.
  absl::StatusOr<bool> Fill();

  std::string name_;
  gzFile file_ = nullptr;  // null: standard input
  int wake_;               // an eventfd
  std::string buffer_;
  size_t at_ = 0;
  std::string line_;
  int64_t line_number_ = 0;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_PREDICT_LINE_SOURCE_H_
