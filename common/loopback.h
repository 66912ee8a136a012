#ifndef COMERA_COMMON_LOOPBACK_H_
#define COMERA_COMMON_LOOPBACK_H_

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace comera {

// Whether `host` can only mean this machine: 127.0.0.0/8, [::1] or localhost.
inline bool IsLoopback(const std::string& host) {
  if (host == "localhost" || host == "[::1]") return true;
  const std::vector<std::string> parts = absl::StrSplit(host, '.');
  if (parts.size() != 4 || parts[0] != "127") return false;
  for (const std::string& part : parts) {
    int number = 0;
    if (!absl::SimpleAtoi(part, &number) || number < 0 || number > 255) {
      return false;
    }
  }
  return true;
}

}  // namespace comera

#endif  // COMERA_COMMON_LOOPBACK_H_
