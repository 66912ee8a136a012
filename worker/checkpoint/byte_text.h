#ifndef COMERA_WORKER_CHECKPOINT_BYTE_TEXT_H_
#define COMERA_WORKER_CHECKPOINT_BYTE_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/str_format.h"

namespace comera::worker {

// A number of bytes for messages, with two to three digits: "1.2 GiB",
// "512 MiB". Rounded, so that sizes that hardly differ read the same.
inline std::string BytesText(int64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return absl::StrFormat("%d bytes", bytes);
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  while (value >= 1023.5 && unit < 3) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.*f %s", value < 9.95 ? 1 : 0, value, kUnits[unit]);
}

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_BYTE_TEXT_H_
