#ifndef COMERA_WORKER_TRAINER_DATA_SOURCE_LINE_READER_H_
#define COMERA_WORKER_TRAINER_DATA_SOURCE_LINE_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/source/byte_source.h"

namespace comera::trainer {

// Lines of a text file, plain or compressed (open_byte_source.h), in bounded
// memory.
//
//   ASSIGN_OR_RETURN(auto reader, LineReader::Open(path));
//   while (true) {
//     ASSIGN_OR_RETURN(const bool more, reader->Next(&line));
//     if (!more) break;
//     ...
//   }
//
// Not thread safe.
class LineReader {
 public:
  static constexpr size_t kMaxLineBytes = 16 << 20;

  // Statuses of OpenByteSource.
  static absl::StatusOr<std::unique_ptr<LineReader>> Open(
      const std::string& path, size_t max_line_bytes = kMaxLineBytes);
  // Reads `source`; `path` is for messages.
  LineReader(std::unique_ptr<ByteSource> source, std::string path,
             size_t max_line_bytes = kMaxLineBytes);

  // The next line without its end (LF or CRLF), valid until the next call;
  // false at the end of the file. DataLoss, with file and line: a line above
  // the limit, a NUL byte, not UTF-8, damaged compression.
  absl::StatusOr<bool> Next(absl::string_view* line);

  // Whether the error that Next returned last is of one line, so that Next may
  // be called again and gives the line behind it.
  bool can_go_on() const { return can_go_on_; }

  // What the file has between the line that Next returned last and the next
  // one: "\n" or "\r\n", or what remains of these at the end of the file.
  absl::string_view line_end() const { return line_end_; }

  // Number of the line that Next returned last, from 1.
  int64_t line_number() const { return line_number_; }
  // DataLoss at that line.
  absl::Status Error(absl::string_view what) const;

 private:
  // Fills buffer_ if it is used up; false at the end of the file.
  absl::StatusOr<bool> Refill();
  // Passes over what remains of a line that was too long.
  absl::Status SkipLine();
  // Reads up to and over the next LF, into line_ and line_end_.
  absl::StatusOr<bool> ReadLine();

  const std::unique_ptr<ByteSource> source_;
  const std::string path_;
  const size_t max_line_bytes_;
  std::vector<char> buffer_;
  size_t position_ = 0;  // in buffer_
  size_t filled_ = 0;
  std::string line_;
  absl::string_view line_end_;
  int64_t line_number_ = 0;
  bool can_go_on_ = false;
  bool within_line_ = false;  // the rest of a line that was too long follows
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_SOURCE_LINE_READER_H_
