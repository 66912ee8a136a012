// Lists the files that match a pattern, one folder level after the other.
#include "worker/trainer/data/source/file_pattern.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

constexpr char kWildcards[] = "*?[";
constexpr size_t kMaxPartBytes = 256;
constexpr int64_t kMaxEntries = 4'000'000;

// Finds what matches in one folder after the other.
class Matcher {
 public:
  // Appends the entries of `folder` ("" or ending in "/") that match `part`:
  // folders, each with a "/" at its end, or regular files.
  absl::Status Find(const std::string& folder, const std::string& part,
                    bool folders, std::vector<std::string>* found) {
    DIR* const dir = opendir(folder.empty() ? "." : folder.c_str());
    if (dir == nullptr) return absl::OkStatus();
    const auto closer = absl::MakeCleanup([dir] { closedir(dir); });
    while (const dirent* entry = readdir(dir)) {
      const absl::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (++entries_ > kMaxEntries) {
        return absl::ResourceExhaustedError(
            absl::StrCat("more than ", kMaxEntries, " entries are searched"));
      }
      struct stat info;
      const bool matches =
          name == part || fnmatch(part.c_str(), entry->d_name, FNM_PERIOD) == 0;
      if (!matches ||
          fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
        continue;
      }
      if (folders && S_ISDIR(info.st_mode)) {
        found->push_back(absl::StrCat(folder, name, "/"));
      } else if (!folders && S_ISREG(info.st_mode)) {
        found->push_back(absl::StrCat(folder, name));
      }
    }
    return absl::OkStatus();
  }

 private:
  int64_t entries_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> FindMatches(
    const std::string& pattern) {
  const size_t wildcard =
      std::min(pattern.find_first_of(kWildcards), pattern.size());
  const size_t fixed = pattern.rfind('/', wildcard) + 1;
  std::vector<std::string> found = {pattern.substr(0, fixed)};
  const std::vector<std::string> parts =
      absl::StrSplit(pattern.substr(fixed), '/', absl::SkipEmpty());
  Matcher matcher;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].size() > kMaxPartBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", Printable(parts[i]), "' has ", parts[i].size(),
                       " bytes, more than ", kMaxPartBytes));
    }
    std::vector<std::string> next;
    for (const std::string& folder : found) {
      RETURN_IF_ERROR(
          matcher.Find(folder, parts[i], i + 1 < parts.size(), &next));
    }
    found = std::move(next);
  }
  // readdir's order is the file system's affair.
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace comera::trainer
