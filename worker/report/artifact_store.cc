// Implements the artifact store on a folder of a shared file system.

#include "worker/report/artifact_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/files.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "worker/files/open_folder.h"
#include "worker/report/growing_file.h"

namespace comera::worker {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kTrailer = "\nsha256 ";
constexpr size_t kTrailerBytes = 8 + 64 + 1;
constexpr size_t kMaxNameBytes = 512;
constexpr size_t kPartBytes = size_t{1} << 20;

absl::Status Abandoned() { return absl::AbortedError("abandoned"); }

// Whether the file is left from a write that was cut short.
bool IsLeftover(const std::string& name) {
  return absl::StrContains(name, ".tmp.");
}

// Passes the bytes of the file from `offset` to `end` on.
absl::Status ReadParts(
    int fd, int64_t offset, int64_t end, const std::string& name,
    const std::function<absl::Status(std::string_view)>& part) {
  std::string buffer(kPartBytes, '\0');
  while (offset < end) {
    const size_t wanted =
        std::min(buffer.size(), static_cast<size_t>(end - offset));
    const ssize_t count = ::pread(fd, buffer.data(), wanted, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "read " + name);
    if (count == 0) return absl::DataLossError(name + ": truncated");
    RETURN_IF_ERROR(
        part(std::string_view(buffer.data(), static_cast<size_t>(count))));
    offset += count;
  }
  return absl::OkStatus();
}

// The open file, and its size.
struct OpenedFile {
  int fd = -1;
  int64_t size = 0;
};

absl::StatusOr<OpenedFile> OpenToRead(const std::string& path) {
  OpenedFile file;
  // A link could stand for what only this process may read.
  file.fd =
      ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file.fd < 0) return ErrnoStatus(errno, "open " + path);
  struct stat info;
  if (::fstat(file.fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(file.fd);
    return absl::InvalidArgumentError(path + " is no plain file");
  }
  file.size = info.st_size;
  return file;
}

class DirectoryStore : public ArtifactStore {
 public:
  explicit DirectoryStore(std::string directory)
      : directory_(std::move(directory)) {}

  absl::Status PutFile(const std::string& name, const PlainFile& from,
                       const std::atomic<bool>& abandoned) override {
    RETURN_IF_ERROR(CheckArtifactName(name));
    const fs::path path = Path(name);
    // The store is its operator's, who may have links in it.
    ASSIGN_OR_RETURN(OpenFolder folder,
                     OpenFolder::Make({path.parent_path().string(), ""}));
    const std::string last = path.filename().string();
    // Several workers may write the same file, so each has a name of its own.
    static std::atomic<int> counter{0};
    ASSIGN_OR_RETURN(
        GrowingFile file,
        GrowingFile::Open(std::move(folder), last,
                          absl::StrCat(last, ".tmp.", ::getpid(), ".",
                                       counter.fetch_add(1))));
    const auto write = [&]() -> absl::Status {
      RETURN_IF_ERROR(file.Reset());
      Sha256Stream hash;
      RETURN_IF_ERROR(from.Read(0, [&](std::string_view data) {
        if (abandoned) return Abandoned();
        hash.Add(data);
        return file.Append(data);
      }));
      RETURN_IF_ERROR(file.Append(absl::StrCat(kTrailer, hash.Finish(), "\n")));
      return file.Commit();
    };
    const absl::Status status = write();
    if (!status.ok()) file.Discard();
    return status;
  }

  absl::Status Read(const std::string& name, int64_t offset,
                    const std::atomic<bool>& abandoned,
                    const OnPart& part) override {
    RETURN_IF_ERROR(CheckArtifactName(name));
    ASSIGN_OR_RETURN(const OpenedFile file, OpenToRead(Path(name)));
    const auto closer = absl::MakeCleanup([&] { ::close(file.fd); });
    const int64_t size = file.size - static_cast<int64_t>(kTrailerBytes);
    if (size < 0) return absl::DataLossError(name + ": truncated");
    if (offset < 0 || offset > size) {
      return absl::OutOfRangeError(
          absl::StrCat(name, ": offset ", offset, " of ", size));
    }
    RETURN_IF_ERROR(part(size, ""));
    return ReadParts(file.fd, offset, size, name, [&](std::string_view data) {
      return abandoned ? Abandoned() : part(size, data);
    });
  }

  absl::StatusOr<std::vector<std::string>> List(
      const std::string& folder, const std::atomic<bool>& abandoned) override {
    std::vector<std::string> names;
    RETURN_IF_ERROR(Walk(folder, abandoned, [&](const fs::path& path) {
      const std::string name = path.lexically_relative(Path(folder)).string();
      if (!IsLeftover(name)) names.push_back(name);
    }));
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::Status Delete(const std::string& name,
                      const std::atomic<bool>& /*abandoned*/) override {
    RETURN_IF_ERROR(CheckArtifactName(name));
    std::error_code error;
    fs::remove(Path(name), error);
    if (error) {
      return absl::UnavailableError(absl::StrCat(name, ": ", error.message()));
    }
    // Only if it is empty.
    fs::remove(fs::path(Path(name)).parent_path(), error);
    return absl::OkStatus();
  }

  absl::Status Tidy(const std::string& folder, absl::Duration age,
                    const std::atomic<bool>& abandoned) override {
    const auto oldest =
        fs::file_time_type::clock::now() - absl::ToChronoSeconds(age);
    return Walk(folder, abandoned, [&](const fs::path& path) {
      std::error_code gone;
      if (IsLeftover(path.filename().string()) &&
          fs::last_write_time(path, gone) < oldest && !gone) {
        fs::remove(path, gone);
      }
    });
  }

 private:
  std::string Path(const std::string& name) const {
    return absl::StrCat(directory_, "/", name);
  }

  // Calls `file` with the path of each plain file below the folder.
  absl::Status Walk(const std::string& folder,
                    const std::atomic<bool>& abandoned,
                    const std::function<void(const fs::path&)>& file) const {
    RETURN_IF_ERROR(CheckArtifactName(folder));
    std::error_code error;
    // What may not be read is an error: it would look as if it were not there.
    fs::recursive_directory_iterator it(Path(folder), error), end;
    const bool whole = !absl::StrContains(folder, '/');
    if (error == std::errc::no_such_file_or_directory) {
      if (!whole || !seen_) return absl::OkStatus();
      return absl::UnavailableError(
          Path(folder) + " was there and is not: is its file system mounted?");
    }
    if (whole && !error) seen_ = true;
    for (; !error && it != end; it.increment(error)) {
      if (abandoned) return Abandoned();
      std::error_code gone;
      if (it->is_regular_file(gone)) file(it->path());
    }
    if (!error) return absl::OkStatus();
    return absl::UnavailableError(
        absl::StrCat(directory_, ": ", error.message()));
  }

  const std::string directory_;
  // A folder of the first level has been listed.
  mutable std::atomic<bool> seen_{false};
};

}  // namespace

absl::Status CheckArtifactName(const std::string& name) {
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

std::unique_ptr<ArtifactStore> OpenDirectoryStore(std::string directory) {
  return std::make_unique<DirectoryStore>(std::move(directory));
}

}  // namespace comera::worker
