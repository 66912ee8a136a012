#ifndef COMERA_WORKER_TRAINER_DATA_CORPUS_LABELLED_ROWS_H_
#define COMERA_WORKER_TRAINER_DATA_CORPUS_LABELLED_ROWS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "comera/v1/job.pb.h"

namespace comera::trainer {

struct LabelledRow {
  std::string text;
  // Empty unless the specification names a second text.
  std::string second_text;
  std::string label;
};

// Rows of a file of labelled texts. Errors name the file, the line and the
// column or field, and hold nothing of what stands there.
//
// Not thread safe.
class LabelledRows {
 public:
  // Opens the file as the format that its name ends with: .csv, .tsv or .jsonl,
  // plain or .gz. The names of columns come from `spec`, whose defaults are
  // filled in. InvalidArgument: another ending, or the header lacks a column or
  // has it twice. NotFound; DataLoss: an empty file.
  static absl::StatusOr<std::unique_ptr<LabelledRows>> Open(
      const v1::LabelledText& spec, const std::string& path);

  virtual ~LabelledRows() = default;

  // Reads the next row; false at the end of the file. DataLoss: malformed
  // contents, a missing field or an empty label.
  virtual absl::StatusOr<bool> Next(LabelledRow* row) = 0;

  // DataLoss at the row that Next returned last.
  virtual absl::Status Error(absl::string_view what) const = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CORPUS_LABELLED_ROWS_H_
