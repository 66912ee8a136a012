// Downloads one blob into the cache's partial files: resumes one, verifies or
// learns its SHA-256.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "worker/data/dataset_cache.h"

namespace comera::worker {
namespace {

constexpr size_t kChunkBytes = 1 << 20;

absl::Status WriteAll(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t count = write(fd, data.data(), data.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "data cannot be written");
    data.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

// Hashes the bytes of the partial file; returns its size.
absl::StatusOr<int64_t> HashPart(int fd, Sha256Stream* sha256) {
  std::string data(kChunkBytes, '\0');
  int64_t size = 0;
  while (true) {
    const ssize_t count = read(fd, data.data(), data.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "part of data");
    if (count == 0) return size;
    sha256->Add(std::string_view(data.data(), static_cast<size_t>(count)));
    size += count;
  }
}

}  // namespace

absl::StatusOr<DatasetCache::Downloaded> DatasetCache::Download(
    const std::string& name, NamedBy named_by, int64_t size,
    const Fetch& fetch) {
  const std::string part = PartialPath(name, named_by);
  const int fd = open(
      part.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return Fault(ErrnoStatus(errno, part));
  const auto closer = absl::MakeCleanup([fd] { close(fd); });
  const int64_t limit = size < 0 ? kMaxUnknownBytes : size;
  Sha256Stream hash;
  const absl::StatusOr<int64_t> hashed = HashPart(fd, &hash);
  if (!hashed.ok()) return Fault(hashed.status());
  int64_t there = *hashed;
  if (there > limit) {
    unlink(part.c_str());
    return absl::UnavailableError("a part of other data was there");
  }
  if (fetch.on_bytes) fetch.on_bytes(there);
  const absl::Status came = fetch.source->Fetch(
      name, there, *fetch.cancelled, [&](std::string_view data) {
        if (static_cast<int64_t>(data.size()) > limit - there) {
          return absl::DataLossError(
              absl::StrCat(name, ": more than ", limit, " bytes came"));
        }
        const absl::Status written = WriteAll(fd, data);
        if (!written.ok()) return Fault(written);
        hash.Add(data);
        there += static_cast<int64_t>(data.size());
        if (fetch.on_bytes) fetch.on_bytes(static_cast<int64_t>(data.size()));
        return absl::OkStatus();
      });
  // Keeps the partial file for the next try unless it is useless. A part of a
  // URL's file is of use only while the next try may ask for the same version.
  if (absl::IsDataLoss(came) || absl::IsResourceExhausted(came) ||
      absl::IsOutOfRange(came) ||
      (named_by == NamedBy::kVersion && !came.ok() &&
       !absl::IsUnavailable(came))) {
    unlink(part.c_str());
  }
  // The next try begins with the version that is there then.
  if (absl::IsAborted(came)) return absl::UnavailableError(came.message());
  RETURN_IF_ERROR(came);
  const std::string sha256 = hash.Finish();
  if ((size >= 0 && there != size) ||
      (named_by == NamedBy::kContents && sha256 != name)) {
    unlink(part.c_str());
    return absl::DataLossError(
        absl::StrCat(name, ": the bytes that came are others"));
  }
  // The modification time is fixed, so that a file fetched again counts as the
  // same one in what members computed from it. Members may not write to it.
  const timespec times[2] = {{0, UTIME_NOW}, {1, 0}};
  if (fchmod(fd, 0444) != 0 || futimens(fd, times) != 0 || fsync(fd) != 0) {
    return Fault(ErrnoStatus(errno, part));
  }
  return Downloaded{sha256, there};
}

}  // namespace comera::worker
