// Checks on text from outside.
#ifndef COMERA_WORKER_TRAINER_DATA_SOURCE_TEXT_H_
#define COMERA_WORKER_TRAINER_DATA_SOURCE_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace comera::trainer {

bool IsValidUtf8(absl::string_view text);

// `text` as it may stand in an error message: valid UTF-8 without control
// characters, cut to 80 bytes.
std::string Printable(absl::string_view text);

// A path, whole, as it may stand in an error message.
std::string PrintablePath(absl::string_view path);

// "path:line", printable.
std::string Place(absl::string_view path, int64_t line);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_SOURCE_TEXT_H_
