#ifndef COMERA_WORKER_TRAINER_DATA_SOURCE_CSV_READER_H_
#define COMERA_WORKER_TRAINER_DATA_SOURCE_CSV_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/source/line_reader.h"

namespace comera::trainer {

// Records of a CSV file as RFC 4180 defines it, plain or
// compressed, in bounded memory: fields are separated by commas; a field in
// double quotes may hold commas, line ends and doubled quotes. Line ends inside
// of fields come out as LF, and empty lines between records are skipped.
//
// Not thread safe.
class CsvReader {
 public:
  static constexpr size_t kMaxRecordBytes = LineReader::kMaxLineBytes;
  static constexpr size_t kMaxFields = 1 << 16;

  // Statuses of LineReader::Open.
  static absl::StatusOr<std::unique_ptr<CsvReader>> Open(
      const std::string& path, size_t max_record_bytes = kMaxRecordBytes);

  // Reads `lines`; `path` is for messages.
  CsvReader(std::unique_ptr<LineReader> lines, std::string path,
            size_t max_record_bytes = kMaxRecordBytes)
      : lines_(std::move(lines)),
        path_(std::move(path)),
        max_record_bytes_(max_record_bytes) {}

  // Reads the fields of the next record; false at the end of the file.
  // DataLoss, with file and line: a quote that is never closed, or one that
  // stands in the middle of a field; a record above the limit; what LineReader
  // refuses.
  absl::StatusOr<bool> Next(std::vector<std::string>* fields);

  // Whether Next may be called again after an error, which it cannot after one
  // within quotes: the next record may begin anywhere.
  bool can_go_on() const { return !in_quotes_ && lines_->can_go_on(); }

  // The line on which the record that Next returned last began, from 1.
  int64_t line_number() const { return record_line_; }
  // DataLoss at that line.
  absl::Status Error(absl::string_view what) const;

 private:
  // Reads the rest of a quoted field, whose opening quote was the last thing
  // taken from `line`, and takes its closing quote. May read more lines.
  absl::Status ReadQuoted(size_t column, absl::string_view* line,
                          std::string* field);

  const std::unique_ptr<LineReader> lines_;
  const std::string path_;
  const size_t max_record_bytes_;
  int64_t record_line_ = 0;
  bool in_quotes_ = false;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_SOURCE_CSV_READER_H_
