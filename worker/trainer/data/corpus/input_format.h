#ifndef COMERA_WORKER_TRAINER_DATA_CORPUS_INPUT_FORMAT_H_
#define COMERA_WORKER_TRAINER_DATA_CORPUS_INPUT_FORMAT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::trainer {

// How rows lie in the files that a model was trained on, kept beside the
// exported model for those who give it like rows.
struct InputFormat {
  // Names of the columns or fields that hold texts: of one text and the second
  // of a pair, or, joined, of parts of one text with a newline between them.
  std::vector<std::string> fields;
  bool fields_joined = false;
  std::string label_field;
  // Names of class 0, 1, ...
  std::vector<std::string> labels;
  // "criteo": as Criteo's files; "rows": categories are rows of tables.
  std::string clicks;
};

inline constexpr char kInputFormatFile[] = "inputs.json";

// Statuses of WriteFileAtomically.
absl::Status SaveInputFormat(const InputFormat& format,
                             const std::string& directory);
// Reads the file of a folder; without the file, the format is empty. DataLoss:
// malformed.
absl::StatusOr<InputFormat> LoadInputFormat(const std::string& directory);
// The file's contents. DataLoss; `name` is for messages.
absl::StatusOr<InputFormat> ParseInputFormat(const std::string& json,
                                             const std::string& name);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CORPUS_INPUT_FORMAT_H_
