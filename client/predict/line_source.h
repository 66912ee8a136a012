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

// Reads lines of a file, plain or gzip, or of standard input, in bounded
// memory.
//
// Not thread-safe.
class LineSource {
 public:
  static constexpr size_t kMaxLineBytes = size_t{16} << 20;

  // "-" means standard input, which is not decompressed. NotFound,
  // PermissionDenied. InvalidArgument: it is a folder.
  static absl::StatusOr<std::unique_ptr<LineSource>> Open(
      const std::string& path);
  ~LineSource();

  // Sets `line` to the next line without its end (LF or CRLF), valid until the
  // next call; returns false at the end. InvalidArgument, with file and line:
  // the line is longer than the limit, holds a NUL byte, or is not UTF-8, or
  // the gzip data are damaged.
  absl::StatusOr<bool> Next(absl::string_view* line);
  // Makes a call of Next that waits for standard input return as at the end of
  // the file. May be called from any thread.
  void Stop();
  // Whether Next may have to wait for another program's output.
  bool MayWait() const;

  // The number of the last line, from 1.
  int64_t line_number() const { return line_number_; }
  // An InvalidArgument that names the file and the last line.
  absl::Status Error(absl::string_view what) const;

 private:
  LineSource();
  // Waits for standard input; returns false after Stop.
  bool Await() const;
  // Fills the buffer; returns false at the end.
  absl::StatusOr<bool> Fill();

  std::string name_;
  gzFile file_ = nullptr;  // null for standard input
  int wake_;               // an eventfd
  std::string buffer_;
  size_t at_ = 0;
  std::string line_;
  int64_t line_number_ = 0;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_PREDICT_LINE_SOURCE_H_
