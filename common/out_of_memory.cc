// Reads the kernel's counters of out-of-memory kills.

#include "common/out_of_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace comera {
namespace {

// The number after `key` in a file of "key number" lines.
int64_t Counter(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string name;
  int64_t value = 0;
  while (file >> name >> value) {
    if (name == key) return value;
  }
  return 0;
}

// This process's group, relative to the root of cgroup v2.
std::string OwnGroup() {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("0::", 0) == 0) return line.substr(3);
  }
  return "";
}

}  // namespace

int64_t OutOfMemoryKills() {
  // The machine's count includes the group's, but is not available everywhere.
  return std::max(
      Counter(absl::StrCat("/sys/fs/cgroup", OwnGroup(), "/memory.events"),
              "oom_kill"),
      Counter("/proc/vmstat", "oom_kill"));
}

}  // namespace comera
