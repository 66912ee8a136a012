#ifndef COMERA_WORKER_TRAINER_DATA_SOURCE_FOREIGN_FORMAT_H_
#define COMERA_WORKER_TRAINER_DATA_SOURCE_FOREIGN_FORMAT_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace comera::trainer {

// So many first bytes of a file tell its format.
inline constexpr size_t kForeignFormatBytes = 16;

// What to do with a file that begins with `first`, in one sentence, if it is of
// a known format that is not read here (Parquet, xz, zip and the like); else
// "".
absl::string_view ForeignFormatAdvice(absl::string_view first);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_SOURCE_FOREIGN_FORMAT_H_
