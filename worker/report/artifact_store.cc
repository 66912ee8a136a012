// Implements the artifact store on a folder of a shared file system.

#include "worker/report/artifact_store.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace comera::worker {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kTrailer = "\nsha256 ";
constexpr size_t kTrailerBytes = 8 + 64 + 1;
constexpr size_t kMaxNameBytes = 512;

absl::Status CheckName(const std::string& name) {
  bool good = !name.empty() && name.size() <= kMaxNameBytes;
  for (absl::string_view part : absl::StrSplit(name, '/')) {
    good = good && !part.empty() && part[0] != '.' &&
           std::all_of(part.begin(), part.end(), [](char c) {
             return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                    c == '.' || c == '_' || c == '-';
           });
  }
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"", name.substr(0, 80), "\" is no name of a file"));
}

// Whether the file is left from a write that was cut short.
bool IsLeftover(const std::string& name) {
  return absl::StrContains(name, ".tmp.");
}

class DirectoryStore : public ArtifactStore {
 public:
  explicit DirectoryStore(std::string directory)
      : directory_(std::move(directory)) {}

  absl::Status Put(const std::string& name,
                   std::string_view contents) override {
    RETURN_IF_ERROR(CheckName(name));
    const std::string path = absl::StrCat(directory_, "/", name);
    RETURN_IF_ERROR(MakeDirectories(fs::path(path).parent_path().string()));
    std::string file(contents);
    absl::StrAppend(&file, kTrailer, Sha256Hex(contents), "\n");
    return WriteFileAtomically(path, file);
  }

  absl::StatusOr<std::string> Get(const std::string& name) override {
    RETURN_IF_ERROR(CheckName(name));
    ASSIGN_OR_RETURN(std::string file,
                     ReadFile(absl::StrCat(directory_, "/", name)));
    if (file.size() < kTrailerBytes) {
      return absl::DataLossError(absl::StrCat(name, ": truncated"));
    }
    const size_t body = file.size() - kTrailerBytes;
    const std::string claimed = file.substr(body);
    file.resize(body);
    if (claimed != absl::StrCat(kTrailer, Sha256Hex(file), "\n")) {
      return absl::DataLossError(absl::StrCat(name, ": checksum differs"));
    }
    return file;
  }

  absl::StatusOr<std::vector<std::string>> List(
      const std::string& folder) override {
    RETURN_IF_ERROR(CheckName(folder));
    std::vector<std::string> names;
    std::error_code error;
    fs::directory_iterator it(absl::StrCat(directory_, "/", folder), error),
        end;
    if (error == std::errc::no_such_file_or_directory) return names;
    for (; !error && it != end; it.increment(error)) {
      std::string name = it->path().filename().string();
      if (!IsLeftover(name)) names.push_back(std::move(name));
    }
    if (error) {
      return absl::UnavailableError(
          absl::StrCat(directory_, ": ", error.message()));
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::Status Delete(const std::string& name) override {
    RETURN_IF_ERROR(CheckName(name));
    std::error_code error;
    fs::remove(absl::StrCat(directory_, "/", name), error);
    if (!error) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(name, ": ", error.message()));
  }

  absl::Status Expire(const std::string& folder, absl::Duration age) override {
    RETURN_IF_ERROR(CheckName(folder));
    const auto oldest =
        fs::file_time_type::clock::now() - absl::ToChronoSeconds(age);
    std::error_code error;
    std::vector<fs::path> old, folders;
    for (fs::recursive_directory_iterator
             it(absl::StrCat(directory_, "/", folder), error),
         end;
         !error && it != end; it.increment(error)) {
      std::error_code gone;
      if (it->is_directory(gone)) {
        folders.push_back(it->path());
      } else if (it->last_write_time(gone) < oldest && !gone) {
        old.push_back(it->path());
      }
    }
    for (const fs::path& path : old) fs::remove(path, error);
    // Removes only empty folders.
    for (const fs::path& path : folders) fs::remove(path, error);
    return absl::OkStatus();
  }

 private:
  const std::string directory_;
};

}  // namespace

std::unique_ptr<ArtifactStore> OpenDirectoryStore(std::string directory) {
  return std::make_unique<DirectoryStore>(std::move(directory));
}

}  // namespace comera::worker
