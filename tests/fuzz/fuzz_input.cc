// Splits fuzz inputs and makes files in memory.

#include "tests/fuzz/fuzz_input.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>

namespace comera {

int FuzzInput::Choose(int count) {
  if (rest_.empty()) return 0;
  const int value = static_cast<unsigned char>(rest_[0]) % count;
  rest_.erase(0, 1);
  return value;
}

std::string FuzzInput::Part() {
  static const std::string kSeparator = "\n---\n";
  const size_t end = rest_.find(kSeparator);
  std::string part = rest_.substr(0, end);
  rest_.erase(0, end == std::string::npos ? end : end + kSeparator.size());
  return part;
}

std::string FuzzFile(const std::string& contents, int index) {
  static std::map<int, int> descriptors;
  if (descriptors.count(index) == 0) {
    descriptors[index] = memfd_create("fuzz", MFD_CLOEXEC);
  }
  const int fd = descriptors[index];
  if (fd < 0 || ftruncate(fd, 0) != 0 ||
      pwrite(fd, contents.data(), contents.size(), 0) !=
          static_cast<ssize_t>(contents.size())) {
    FuzzFailure("no file in memory");
  }
  return "/proc/self/fd/" + std::to_string(fd);
}

void FuzzFailure(const std::string& what) {
  std::fprintf(stderr, "property violated: %s\n", what.c_str());
  std::abort();
}

}  // namespace comera
