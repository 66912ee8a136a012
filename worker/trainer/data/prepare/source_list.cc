// Finds the files that a corpus is made of.
#include "worker/trainer/data/prepare/source_list.h"

#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "proto/dataset_names.h"
#include "worker/trainer/data/source/file_pattern.h"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

absl::StatusOr<SourceFile> Describe(const std::string& path) {
  SourceFile source;
  source.path = path;
  if (path == kStandardInput) return source;
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return ErrnoStatus(errno, PrintablePath(path));
  }
  if (S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(
        PrintablePath(path), ": a folder; name its files, e.g. by the pattern ",
        PrintablePath(path), "/*.txt"));
  }
  source.size_bytes = info.st_size;
  ASSIGN_OR_RETURN(const std::string stamp, FileStamp(path));
  source.stamp = Sha256Hex(stamp);
  return source;
}

}  // namespace

absl::StatusOr<std::vector<SourceFile>> ListSources(
    const std::vector<std::string>& names) {
  std::vector<SourceFile> sources;
  absl::flat_hash_set<std::string> seen;
  for (const std::string& name : names) {
    if (name.find("://") != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat(
          PrintablePath(name),
          ": URLs are not read; download it, or pipe it into `comera data "
          "prepare -`"));
    }
    std::vector<std::string> found = {name};
    struct stat info;
    // A file may have such a character in its name.
    if (IsFilePattern(name) && stat(name.c_str(), &info) != 0) {
      ASSIGN_OR_RETURN(found, FindMatches(name));
      if (found.empty()) {
        return absl::NotFoundError(
            absl::StrCat("no file matches ", PrintablePath(name)));
      }
    }
    for (const std::string& path : found) {
      if (!seen.insert(path).second) continue;
      ASSIGN_OR_RETURN(SourceFile source, Describe(path));
      sources.push_back(std::move(source));
    }
  }
  if (sources.empty()) {
    return absl::InvalidArgumentError("no sources: files, patterns or -");
  }
  if (seen.contains(kStandardInput) && sources.size() > 1) {
    return absl::InvalidArgumentError(
        "-: standard input has to be the only source");
  }
  return sources;
}

std::string StampsDigest(const std::vector<SourceFile>& sources) {
  std::string stamps;
  for (const SourceFile& source : sources) {
    absl::StrAppend(&stamps, source.stamp, "\n");
  }
  return Sha256Hex(stamps);
}

}  // namespace comera::trainer
