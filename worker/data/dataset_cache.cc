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

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/files.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "proto/dataset_names.h"

namespace comera::worker {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kLook(200);
// Begins the names of the partial files of URLs.
constexpr absl::string_view kUrlPart = "url-";

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
  for (const fs::path& view : Children(folder + "/views")) {
    if (options.kept_views.count(view.filename().string()) == 0) {
      fs::remove_all(view, error);
    }
  }
  for (const char* name : {"/blobs", "/partial", "/views", "/versions"}) {
    RETURN_IF_ERROR(MakeDirectories(folder + name));
  }
  // Nobody may ever ask for that version of a URL again.
  for (const fs::path& path : Children(folder + "/partial")) {
    if (absl::StartsWith(path.filename().string(), kUrlPart)) {
      unlink(path.c_str());
    }
  }
  const std::lock_guard<std::mutex> lock(cache->mutex_);
  cache->Scan();
  cache->ScanVersions();
  cache->ScanViews();
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

// A blob whose links are not known would take its space even when evicted.
void DatasetCache::ScanViews() {
  if (options_.kept_views.empty()) return;
  std::map<ino_t, Entry*> entries;
  struct stat info;
  for (auto& [sha256, entry] : entries_) {
    if (lstat(BlobPath(sha256).c_str(), &info) == 0) {
      entries[info.st_ino] = &entry;
    }
  }
  for (const std::string& digest : options_.kept_views) {
    if (!IsSha256(digest)) continue;
    std::error_code error;
    for (fs::recursive_directory_iterator it(View(digest), error), end;
         !error && it != end; it.increment(error)) {
      const std::string path = it->path().string();
      if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
      const auto entry = entries.find(info.st_ino);
      if (entry != entries.end()) entry->second->links.insert(path);
    }
  }
}

void DatasetCache::KeepView(const std::string& digest, Lease* lease) {
  const std::string beginning = View(digest) + "/";
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [sha256, entry] : entries_) {
    const auto link = entry.links.lower_bound(beginning);
    if (link != entry.links.end() && absl::StartsWith(*link, beginning)) {
      AddUse(sha256, entry, lease);
    }
  }
}

std::string DatasetCache::BlobPath(const std::string& sha256) const {
  return absl::StrCat(folder_, "/blobs/", sha256.substr(0, 2), "/", sha256);
}

std::string DatasetCache::PartialPath(const std::string& name,
                                      NamedBy named_by) const {
  return absl::StrCat(folder_, "/partial/",
                      named_by == NamedBy::kVersion ? kUrlPart : "", name);
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
    const std::string file = path.filename().string();
    if (fetching_.count(std::string(absl::StripPrefix(file, kUrlPart))) > 0) {
      continue;
    }
    removed |= unlink(path.c_str()) == 0;
  }
  return removed;
}

absl::Status DatasetCache::Fault(const absl::Status& detail) {
  LOG(ERROR) << "cache of data " << detail;
  if (absl::IsResourceExhausted(detail)) {
    return absl::ResourceExhaustedError("the worker's disk is full");
  }
  const std::string text =
      "the worker cannot use its cache of data; its log has the reason";
  return absl::IsUnavailable(detail) ? absl::UnavailableError(text)
                                     : absl::FailedPreconditionError(text);
}

absl::Status DatasetCache::AddSize(int64_t bytes, int64_t* sum) const {
  if (bytes < 0) return absl::DataLossError("a file has a negative size");
  if (bytes > options_.max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a file of ", bytes,
                     " bytes does not fit the worker's "
                     "cache of ",
                     options_.max_bytes, " (--cache_bytes)"));
  }
  if (*sum > options_.max_bytes - bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the job's files have more bytes than the worker's cache "
                     "of ",
                     options_.max_bytes, " (--cache_bytes)"));
  }
  *sum += bytes;
  return absl::OkStatus();
}

absl::Status DatasetCache::MakeRoom(int64_t bytes) {
  int64_t alone = 0;
  RETURN_IF_ERROR(AddSize(bytes, &alone));
  while (used_bytes_ > options_.max_bytes - bytes) {
    if (EvictOldest()) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("the worker's cache of ", options_.max_bytes,
                     " bytes (--cache_bytes) has no room for ", bytes,
                     " more: what it holds is in use"));
  }
  while (true) {
    struct statvfs info;
    if (statvfs(folder_.c_str(), &info) != 0) {
      return Fault(ErrnoStatus(errno, folder_));
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
  RETURN_IF_ERROR(Claim(name, named_by, *fetched, lease));
  return fetched->sha256;
}

// Holds the lock while the file moves: the same contents may be there under
// another name, and must not be evicted between the move and the account of it.
absl::Status DatasetCache::Claim(const std::string& name, NamedBy named_by,
                                 const Downloaded& downloaded, Lease* lease) {
  const std::string part = PartialPath(name, named_by);
  const std::string path = BlobPath(downloaded.sha256);
  const bool known = entries_.count(downloaded.sha256) > 0;
  if (known && access(path.c_str(), F_OK) == 0) {
    unlink(part.c_str());
  } else {
    const absl::Status made = MakeDirectories(path.substr(0, path.rfind('/')));
    if (!made.ok()) return Fault(made);
    if (rename(part.c_str(), path.c_str()) != 0) {
      return Fault(ErrnoStatus(errno, path));
    }
  }
  Entry& entry = entries_[downloaded.sha256];
  used_bytes_ += downloaded.size - entry.size;
  entry.size = downloaded.size;
  AddUse(downloaded.sha256, entry, lease);
  if (named_by == NamedBy::kVersion) AddVersion(name, downloaded.sha256);
  return absl::OkStatus();
}

void DatasetCache::AddVersion(const std::string& version,
                              const std::string& sha256) {
  size_t count = 0;
  for (auto it = versions_.begin(); it != versions_.end();) {
    if (it->second != sha256 || it->first == version ||
        ++count < kMaxVersionsOfBlob) {
      ++it;
      continue;
    }
    unlink(VersionPath(it->first).c_str());
    it = versions_.erase(it);
  }
  versions_[version] = sha256;
  // Without the file it is only fetched once more after a restart.
  const absl::Status written =
      WriteFileAtomically(VersionPath(version), sha256);
  LOG_IF(WARNING, !written.ok()) << "data version not kept " << written;
}

absl::Status DatasetCache::Link(const std::string& sha256,
                                const std::string& digest,
                                const std::string& path) {
  const std::string name = absl::StrCat(View(digest), "/", path);
  const absl::Status made = MakeDirectories(name.substr(0, name.rfind('/')));
  if (!made.ok()) return Fault(made);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = entries_.find(sha256);
  if (it == entries_.end()) return absl::InternalError("no leased blob");
  if (!it->second.links.insert(name).second) return absl::OkStatus();
  if (link(BlobPath(sha256).c_str(), name.c_str()) != 0 && errno != EEXIST) {
    it->second.links.erase(name);
    return Fault(ErrnoStatus(errno, name));
  }
  return absl::OkStatus();
}

}  // namespace comera::worker
