// Splits fuzz inputs and makes files in memory.

#include "tests/fuzz/fuzz_input.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <system_error>

namespace comera {
namespace {

// The files that NamedFuzzFile makes begin here, after those of FuzzFile.
constexpr int kFirstNamed = 1000;

// A new folder that goes with its owner.
class Folder {
 public:
  Folder() {
    const char* const place = std::getenv("TEST_TMPDIR");
    path_ = std::string(place != nullptr ? place : "/tmp") + "/fuzz-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) FuzzFailure("no folder " + path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

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

std::string NamedFuzzFile(const std::string& name,
                          const std::string& contents) {
  static std::map<std::string, int> indices;
  const int next = kFirstNamed + static_cast<int>(indices.size());
  const auto [found, is_new] = indices.emplace(name, next);
  const std::string file = FuzzFile(contents, found->second);
  const std::string path = FuzzFolder() + "/" + name;
  if (is_new && symlink(file.c_str(), path.c_str()) != 0) {
    FuzzFailure("no file " + path);
  }
  return path;
}

const std::string& FuzzFolder() {
  static const Folder folder;
  return folder.path();
}

void FuzzFailure(const std::string& what) {
  std::fprintf(stderr, "property violated: %s\n", what.c_str());
  std::abort();
}

}  // namespace comera
