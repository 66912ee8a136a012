// Lists the files below a directory in a fixed order.
#include "worker/trainer/data/source/file_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

constexpr size_t kMaxGlobBytes = 256;
constexpr int64_t kMaxEntries = 4'000'000;

bool Matches(const std::vector<std::string>& globs, const std::string& name,
             const std::string& relative_path) {
  if (globs.empty()) return true;
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
    const bool by_path = glob.find('/') != std::string::npos;
    return fnmatch(glob.c_str(), (by_path ? relative_path : name).c_str(), 0) ==
           0;
  });
}

}  // namespace

absl::StatusOr<std::vector<FoundFile>> FindFiles(
    const std::string& root, const std::vector<std::string>& globs) {
  for (const std::string& glob : globs) {
    if (glob.empty() || glob.size() > kMaxGlobBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "data.code_directory.globs: '", Printable(glob), "' has ",
          glob.size(), " bytes, not 1 to ", kMaxGlobBytes));
    }
  }
  std::vector<FoundFile> files;
  // Folders still to read, below the root, each "" or ending in "/".
  std::vector<std::string> folders = {""};
  int64_t entries = 0;
  while (!folders.empty()) {
    const std::string folder = std::move(folders.back());
    folders.pop_back();
    DIR* const dir = opendir(absl::StrCat(root, "/", folder).c_str());
    if (dir == nullptr) {
      if (!folder.empty()) continue;
      const int error = errno;
      const std::string message =
          absl::StrCat("data.code_directory.roots: ", PrintablePath(root));
      if (error == ENOTDIR) {
        return absl::InvalidArgumentError(message + ": not a folder");
      }
      return absl::ErrnoToStatus(error, message);
    }
    const auto closer = absl::MakeCleanup([dir] { closedir(dir); });
    while (const dirent* entry = readdir(dir)) {
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      if (++entries > kMaxEntries) {
        return absl::ResourceExhaustedError(
            absl::StrCat("data.code_directory.roots: ", PrintablePath(root),
                         " holds more than ", kMaxEntries, " entries"));
      }
      struct stat info;
      if (fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
        continue;  // gone meanwhile
      }
      std::string relative_path = folder + name;
      if (S_ISDIR(info.st_mode)) {
        folders.push_back(relative_path + "/");
      } else if (S_ISREG(info.st_mode) && Matches(globs, name, relative_path)) {
        FoundFile file;
        file.path = absl::StrCat(root, "/", relative_path);
        file.relative_path = std::move(relative_path);
        file.size = info.st_size;
        file.modified_ns =
            info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
        files.push_back(std::move(file));
      }
    }
  }
  // readdir's order is the file system's affair.
  std::sort(files.begin(), files.end(),
            [](const FoundFile& a, const FoundFile& b) {
              return a.relative_path < b.relative_path;
            });
  return files;
}

}  // namespace comera::trainer
