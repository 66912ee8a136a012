// Keeps account of cached blobs: leases, order of use, eviction, and views made
// of hard links.

#include "worker/data/dataset_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/files.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "proto/dataset_names.h"

namespace comera::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kLook(200);

std::vector<fs::path> Children(const fs::path& folder) {
  std::vector<fs::path> children;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    children.push_back(it->path());
  }
  return children;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DatasetCache>> DatasetCache::Open(
    const std::string& folder, const Options& options) {
  std::unique_ptr<DatasetCache> cache(new DatasetCache(folder, options));
  std::error_code error;
  fs::remove_all(folder + "/views", error);
  for (const char* name : {"/blobs", "/partial", "/views", "/versions"}) {
    RETURN_IF_ERROR(MakeDirectories(folder + name));
  }
  const std::lock_guard<std::mutex> lock(cache->mutex_);
  cache->Scan();
  cache->ScanVersions();
  return cache;
}

void DatasetCache::Scan() {
  for (const fs::path& folder : Children(folder_ + "/blobs")) {
    for (const fs::path& path : Children(folder)) {
      struct stat info;
      const std::string name = path.filename().string();
      if (!IsSha256(name) || lstat(path.c_str(), &info) != 0 ||
          !S_ISREG(info.st_mode)) {
        continue;
      }
      Entry& entry = entries_[name];
      entry.size = info.st_size;
      entry.last_use = absl::TimeFromTimespec(info.st_atim);
      used_bytes_ += entry.size;
    }
  }
}

void DatasetCache::ScanVersions() {
  for (const fs::path& path : Children(folder_ + "/versions")) {
    const absl::StatusOr<std::string> sha256 = ReadFile(path.string());
    if (sha256.ok() && entries_.count(*sha256) > 0) {
      versions_[path.filename().string()] = *sha256;
    } else {
      unlink(path.c_str());
    }
  }
}

std::string DatasetCache::BlobPath(const std::string& sha256) const {
  return absl::StrCat(folder_, "/blobs/", sha256.substr(0, 2), "/", sha256);
}

std::string DatasetCache::PartialPath(const std::string& sha256) const {
  return absl::StrCat(folder_, "/partial/", sha256);
}

std::string DatasetCache::VersionPath(const std::string& version) const {
  return absl::StrCat(folder_, "/versions/", version);
}

std::string DatasetCache::View(const std::string& digest) const {
  return absl::StrCat(folder_, "/views/", digest);
}

int64_t DatasetCache::used_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return used_bytes_;
}

void DatasetCache::Wake() {
  const std::lock_guard<std::mutex> lock(mutex_);
  changed_.notify_all();
}

void DatasetCache::AddUse(const std::string& sha256, Entry& entry,
                          Lease* lease) {
  entry.last_use = absl::Now();
  if (lease->blobs_.insert(sha256).second) ++entry.leases;
  // The access time on disk keeps the order of use beyond this process. The
  // modification time stays, because what members compute from a file is keyed
  // by it.
  const timespec times[2] = {absl::ToTimespec(entry.last_use), {0, UTIME_OMIT}};
  utimensat(AT_FDCWD, BlobPath(sha256).c_str(), times, AT_SYMLINK_NOFOLLOW);
}

void DatasetCache::Release(const std::set<std::string>& blobs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::string& sha256 : blobs) {
    const auto it = entries_.find(sha256);
    if (it != entries_.end()) --it->second.leases;
  }
}

bool DatasetCache::EvictOldest() {
  auto oldest = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    if (it->second.leases > 0) continue;
    if (oldest == entries_.end() ||
        it->second.last_use < oldest->second.last_use) {
      oldest = it;
    }
  }
  if (oldest == entries_.end()) return false;
  for (const std::string& link : oldest->second.links) unlink(link.c_str());
  unlink(BlobPath(oldest->first).c_str());
  used_bytes_ -= oldest->second.size;
  for (auto it = versions_.begin(); it != versions_.end();) {
    if (it->second == oldest->first) {
      unlink(VersionPath(it->first).c_str());
      it = versions_.erase(it);
    } else {
      ++it;
    }
  }
  entries_.erase(oldest);
  return true;
}

bool DatasetCache::RemoveParts() {
  bool removed = false;
  for (const fs::path& path : Children(folder_ + "/partial")) {
    if (fetching_.count(path.filename().string()) > 0) continue;
    removed |= unlink(path.c_str()) == 0;
  }
  return removed;
}

absl::Status DatasetCache::MakeRoom(int64_t bytes) {
  if (bytes > options_.max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a file of ", bytes,
                     " bytes does not fit the worker's "
                     "cache of ",
                     options_.max_bytes, " (--cache_bytes)"));
  }
  while (used_bytes_ + bytes > options_.max_bytes) {
    if (EvictOldest()) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("the worker's cache of ", options_.max_bytes,
                     " bytes (--cache_bytes) has no room for ", bytes,
                     " more: what it holds is in use"));
  }
  while (true) {
    struct statvfs info;
    if (statvfs(folder_.c_str(), &info) != 0) {
      return ErrnoStatus(errno, folder_);
    }
    const int64_t free = static_cast<int64_t>(info.f_bavail) *
                         static_cast<int64_t>(info.f_frsize);
    if (free - options_.min_free_bytes >= bytes) return absl::OkStatus();
    if (RemoveParts() || EvictOldest()) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "the worker's disk has ", free, " bytes left, ", bytes,
        " are needed for data and ", options_.min_free_bytes, " to go on"));
  }
}

absl::StatusOr<std::string> DatasetCache::Get(const std::string& sha256,
                                              int64_t size, const Fetch& fetch,
                                              Lease* lease) {
  RETURN_IF_ERROR(
      Obtain(sha256, NamedBy::kContents, size, fetch, lease).status());
  return BlobPath(sha256);
}

absl::StatusOr<std::string> DatasetCache::GetVersion(const std::string& version,
                                                     int64_t size,
                                                     const Fetch& fetch,
                                                     Lease* lease) {
  return Obtain(version, NamedBy::kVersion, size, fetch, lease);
}

absl::StatusOr<std::string> DatasetCache::Obtain(const std::string& name,
                                                 NamedBy named_by, int64_t size,
                                                 const Fetch& fetch,
                                                 Lease* lease) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    std::string sha256 = name;
    if (named_by == NamedBy::kVersion) {
      const auto version = versions_.find(name);
      sha256 = version == versions_.end() ? "" : version->second;
    }
    const auto it = entries_.find(sha256);
    if (it != entries_.end()) {
      AddUse(sha256, it->second, lease);
      if (fetch.on_bytes) fetch.on_bytes(it->second.size);
      return sha256;
    }
    if (*fetch.cancelled) return absl::CancelledError("not wanted any more");
    if (fetching_.count(name) == 0) break;
    changed_.wait_for(lock, kLook);
  }
  const int64_t reserved = std::max<int64_t>(size, 0);
  RETURN_IF_ERROR(MakeRoom(reserved));
  used_bytes_ += reserved;
  fetching_.insert(name);
  lock.unlock();
  const absl::StatusOr<Downloaded> fetched =
      Download(name, named_by, size, fetch);
  lock.lock();
  fetching_.erase(name);
  changed_.notify_all();
  used_bytes_ -= reserved;
  RETURN_IF_ERROR(fetched.status());
  Entry& entry = entries_[fetched->sha256];
  // The same contents may be there under another name.
  used_bytes_ += fetched->size - entry.size;
  entry.size = fetched->size;
  AddUse(fetched->sha256, entry, lease);
  if (named_by == NamedBy::kVersion) versions_[name] = fetched->sha256;
  return fetched->sha256;
}

absl::Status DatasetCache::Link(const std::string& sha256,
                                const std::string& digest,
                                const std::string& path) {
  const std::string name = absl::StrCat(View(digest), "/", path);
  RETURN_IF_ERROR(MakeDirectories(name.substr(0, name.rfind('/'))));
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = entries_.find(sha256);
  if (it == entries_.end()) return absl::InternalError("no leased blob");
  if (!it->second.links.insert(name).second) return absl::OkStatus();
  if (link(BlobPath(sha256).c_str(), name.c_str()) != 0 && errno != EEXIST) {
    it->second.links.erase(name);
    return ErrnoStatus(errno, name);
  }
  return absl::OkStatus();
}

}  // namespace comera::worker
