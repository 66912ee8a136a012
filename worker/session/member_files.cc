// Lists the files that a member needs.
#include "worker/session/member_files.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "proto/data_paths.h"

namespace comera::worker {
namespace {

namespace fs = std::filesystem;

// The folder of a pattern before its first wildcard.
std::string FixedFolder(const std::string& pattern) {
  const size_t wildcard = pattern.find_first_of("*?[");
  if (wildcard == std::string::npos) return pattern;
  const size_t slash = pattern.rfind('/', wildcard);
  return slash == 0 ? "/" : pattern.substr(0, slash);
}

// Variables whose values are paths, of files that are read and that are
// written.
constexpr absl::string_view kReadVariables[] = {
    "LD_LIBRARY_PATH", "LD_PRELOAD", "NCCL_CONF_FILE", "NCCL_TOPO_FILE",
    "FAKETIME_TIMESTAMP_FILE"};
constexpr absl::string_view kWriteVariables[] = {
    "CUDA_CACHE_PATH", "CUDA_MPS_LOG_DIRECTORY", "CUDA_MPS_PIPE_DIRECTORY"};

// The files that a variable, NAME=VALUE, names.
void AddNamedIn(absl::string_view variable, FileAccess* access) {
  const std::pair<absl::string_view, absl::string_view> both =
      absl::StrSplit(variable, absl::MaxSplits('=', 1));
  const auto is = [&both](absl::string_view name) {
    return both.first == name;
  };
  const bool read =
      std::any_of(std::begin(kReadVariables), std::end(kReadVariables), is);
  const bool write =
      std::any_of(std::begin(kWriteVariables), std::end(kWriteVariables), is);
  if (!read && !write) return;
  for (const absl::string_view path :
       absl::StrSplit(both.second, absl::ByAnyChar(": "), absl::SkipEmpty())) {
    if (path[0] != '/') continue;
    (read ? access->read : access->write).push_back(std::string(path));
  }
}

// The path, and where the links lead that lie in it: Landlock looks at files,
// not at names.
void AddData(const std::string& path, std::vector<std::string>* read) {
  read->push_back(path);
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    if (it->is_symlink(error)) read->push_back(it->path().string());
  }
}

}  // namespace

FileAccess MemberFiles(const v1::MemberAssignment& member,
                       const JobFolders& folders, const std::string& data_dir,
                       const std::string& trainer,
                       const std::vector<std::string>& environment) {
  FileAccess access = SystemFiles();
  access.read.push_back(trainer);
  for (const std::string& variable : environment) {
    AddNamedIn(variable, &access);
  }
  const std::string& job = member.job();
  for (const std::string& folder : folders.WritableFolders(member)) {
    access.write.push_back(folder);
  }
  access.write.push_back(folders.Temporary(job, member.attempt()));
  // Its task.
  access.read.push_back(fs::path(folders.Temporary(job, member.attempt()))
                            .parent_path()
                            .string());
  access.read.push_back(folders.Lease());
  for (const v1::DatasetPin& pin : member.datasets()) {
    access.read.push_back(
        absl::StrCat(data_dir, "/datasets/views/", pin.digest()));
  }
  // Debian's interpreter has a start-up file there.
  if (member.spec().has_program()) access.read.push_back("/etc/python3.11");
  v1::JobSpec spec = member.spec();
  for (const DataPath& path : DataPaths(&spec)) {
    AddData(
        path.kind == PathKind::kFiles ? FixedFolder(*path.path) : *path.path,
        &access.read);
  }
  return access;
}

}  // namespace comera::worker
