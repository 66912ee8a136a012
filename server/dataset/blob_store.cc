// Stores blobs as files named by their SHA-256.
#include "server/dataset/blob_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "proto/dataset_names.h"
#include "server/rpc/user_quota.h"

namespace comera::server {
namespace {

constexpr char kPartial[] = "partial";

// -1: no such file.
int64_t FileSize(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return -1;
  return info.st_size;
}

std::vector<std::string> List(const std::string& folder) {
  std::vector<std::string> names;
  DIR* directory = opendir(folder.c_str());
  if (directory == nullptr) return names;
  while (const dirent* entry = readdir(directory)) {
    if (entry->d_name[0] != '.') names.push_back(entry->d_name);
  }
  closedir(directory);
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status SyncFolder(const std::string& folder) {
  ASSIGN_OR_RETURN(FileHandle handle,
                   FileHandle::Open(folder, O_RDONLY | O_DIRECTORY));
  return handle.Sync();
}

}  // namespace

BlobStore::BlobStore(const std::string& data_dir, const Options& options,
                     Clock* clock)
    : folder_(absl::StrCat(data_dir, "/blobs")),
      descriptions_(absl::StrCat(data_dir, "/descriptions")),
      options_(options),
      clock_(clock) {}

absl::StatusOr<std::unique_ptr<BlobStore>> BlobStore::Open(
    const std::string& data_dir, const Options& options, Clock* clock) {
  std::unique_ptr<BlobStore> store(new BlobStore(data_dir, options, clock));
  RETURN_IF_ERROR(MakeDirectories(absl::StrCat(store->folder_, "/", kPartial)));
  store->ForEach([&](const std::string&, const std::string& path) {
    store->used_bytes_ += std::max<int64_t>(0, FileSize(path));
  });
  return store;
}

std::string BlobStore::Path(const std::string& sha256) const {
  return absl::StrCat(folder_, "/", sha256.substr(0, 2), "/", sha256);
}

std::string BlobStore::PartialPath(const std::string& sha256) const {
  return absl::StrCat(folder_, "/", kPartial, "/", sha256);
}

void BlobStore::ForEach(
    const std::function<void(const std::string&, const std::string&)>& visit)
    const {
  for (const std::string& folder : List(folder_)) {
    for (const std::string& name : List(absl::StrCat(folder_, "/", folder))) {
      if (!IsSha256(name)) continue;
      visit(name, absl::StrCat(folder_, "/", folder, "/", name));
    }
  }
}

absl::StatusOr<int64_t> BlobStore::Size(const std::string& sha256) const {
  const int64_t size = FileSize(Path(sha256));
  if (size < 0) return absl::NotFoundError(absl::StrCat("no blob ", sha256));
  return size;
}

int64_t BlobStore::PartialSize(const std::string& sha256) const {
  return std::max<int64_t>(0, FileSize(PartialPath(sha256)));
}

absl::Status BlobStore::CheckRoom(int64_t bytes) const {
  const int64_t quota_left =
      std::max<int64_t>(0, options_.quota_bytes - used_bytes_);
  if (bytes > quota_left) {
    return absl::ResourceExhaustedError(
        absl::StrCat(bytes, " bytes are to be stored, ", quota_left,
                     " are free of the quota of ", options_.quota_bytes));
  }
  struct statvfs info;
  if (statvfs(folder_.c_str(), &info) != 0) return ErrnoStatus(errno, folder_);
  const int64_t disk_left =
      std::max<int64_t>(0, static_cast<int64_t>(info.f_bavail) *
                                   static_cast<int64_t>(info.f_frsize) -
                               options_.min_free_bytes);
  if (bytes > disk_left) {
    return absl::ResourceExhaustedError(
        absl::StrCat(bytes, " bytes are to be stored, ", disk_left,
                     " are free on the server's disk"));
  }
  return absl::OkStatus();
}

absl::Status BlobStore::CheckSender(const BlobSender& sender,
                                    int64_t bytes) const {
  if (sender.max_bytes <= 0) return absl::OkStatus();
  const int64_t used = sender.used_bytes + UnclaimedBytes(sender.user);
  if (bytes <= sender.max_bytes - used) return absl::OkStatus();
  return OverQuota(sender.user, used, "bytes of datasets", sender.max_bytes,
                   "user_dataset_bytes",
                   "delete datasets; files that are in none go after a day");
}

int64_t BlobStore::UnclaimedBytes(const std::string& user) const {
  const auto found = unclaimed_by_user_.find(user);
  return found == unclaimed_by_user_.end() ? 0 : found->second;
}

void BlobStore::AddUnclaimed(const std::string& sha256, const std::string& user,
                             int64_t bytes) {
  if (user.empty()) return;
  Unclaimed& blob = unclaimed_[sha256];
  // A user who goes on with another's upload owes all of it.
  if (blob.user != user) {
    const int64_t before = blob.bytes;
    Claim(sha256);
    unclaimed_[sha256] = {user, before};
    unclaimed_by_user_[user] += before;
  }
  unclaimed_[sha256].bytes += bytes;
  unclaimed_by_user_[user] += bytes;
}

void BlobStore::Claim(const std::string& sha256) {
  const auto found = unclaimed_.find(sha256);
  if (found == unclaimed_.end()) return;
  const auto user = unclaimed_by_user_.find(found->second.user);
  if (user != unclaimed_by_user_.end() &&
      (user->second -= found->second.bytes) <= 0) {
    unclaimed_by_user_.erase(user);
  }
  unclaimed_.erase(found);
}

absl::StatusOr<std::unique_ptr<BlobUpload>> BlobStore::BeginUpload(
    const std::string& sha256, int64_t size, int64_t offset,
    BlobSender sender) {
  if (const auto stored = Size(sha256); stored.ok()) {
    if (*stored == size) return absl::AlreadyExistsError("the blob is there");
    return absl::InvalidArgumentError(
        absl::StrCat("header.size_bytes: the blob ", sha256, " has ", *stored,
                     " bytes, not ", size));
  }
  if (size > options_.max_blob_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a file of ", size, " bytes; at most ",
                     options_.max_blob_bytes, " are possible"));
  }
  const absl::Time now = clock_->Now();
  if (const auto other = uploads_.find(sha256); other != uploads_.end()) {
    if (now - other->second->last_activity_ < options_.idle_upload) {
      return absl::UnavailableError(
          absl::StrCat("another client is sending the blob ", sha256));
    }
    other->second->Release();
  }
  const std::string path = PartialPath(sha256);
  int64_t there = PartialSize(sha256);
  // What claimed to be this blob was none.
  if (there > size) {
    RemoveBlob(sha256, path);
    there = 0;
  }
  if (offset != there) {
    return absl::OutOfRangeError(absl::StrCat("header.offset: is ", offset,
                                              "; ", there, " bytes are there"));
  }
  // What cannot fit need not be sent.
  RETURN_IF_ERROR(CheckRoom(size - there));
  RETURN_IF_ERROR(CheckSender(sender, size - there));
  ASSIGN_OR_RETURN(FileHandle file, FileHandle::Open(path, O_RDWR | O_CREAT));
  std::unique_ptr<BlobUpload> upload(
      new BlobUpload(this, sha256, size, std::move(sender)));
  upload->file_ = std::move(file);
  upload->received_ = there;
  upload->last_activity_ = now;
  uploads_[sha256] = upload.get();
  return upload;
}

absl::StatusOr<std::string> BlobStore::Put(std::string_view contents) {
  const std::string sha256 = Sha256Hex(contents);
  if (Size(sha256).ok()) return sha256;
  const int64_t size = static_cast<int64_t>(contents.size());
  RETURN_IF_ERROR(CheckRoom(size));
  const std::string temporary = absl::StrCat(folder_, "/", kPartial, "/put");
  RETURN_IF_ERROR(WriteFileAtomically(temporary, contents));
  RETURN_IF_ERROR(Publish(temporary, sha256));
  used_bytes_ += size;
  return sha256;
}

absl::Status BlobStore::Publish(const std::string& from,
                                const std::string& sha256) {
  const std::string path = Path(sha256);
  const std::string folder = path.substr(0, path.rfind('/'));
  RETURN_IF_ERROR(MakeDirectories(folder));
  if (chmod(from.c_str(), 0440) != 0 ||
      rename(from.c_str(), path.c_str()) != 0) {
    return ErrnoStatus(errno, path);
  }
  RETURN_IF_ERROR(SyncFolder(folder));
  return SyncFolder(folder_);
}

absl::StatusOr<std::string> BlobStore::Read(const std::string& sha256,
                                            int64_t max_bytes) const {
  ASSIGN_OR_RETURN(const int64_t size, Size(sha256));
  if (size > max_bytes) {
    return absl::DataLossError(
        absl::StrCat("blob ", sha256, ": ", size, " bytes are too many"));
  }
  ASSIGN_OR_RETURN(std::string contents, ReadFile(Path(sha256)));
  if (Sha256Hex(contents) != sha256) {
    return absl::DataLossError(
        absl::StrCat("blob ", sha256, ": the stored bytes are damaged"));
  }
  return contents;
}

int64_t BlobStore::RemoveFile(const std::string& path) {
  const int64_t size = FileSize(path);
  if (size < 0 || unlink(path.c_str()) != 0) return 0;
  used_bytes_ -= size;
  return size;
}

int64_t BlobStore::RemoveBlob(const std::string& sha256,
                              const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(absl::StrCat(descriptions_, "/", sha256),
                              ignored);
  Claim(sha256);
  return RemoveFile(path);
}

int64_t BlobStore::Remove(const std::string& sha256) {
  return RemoveBlob(sha256, Path(sha256));
}

int64_t BlobStore::RemoveUnused(const std::set<std::string>& used,
                                absl::Time before) {
  std::vector<std::pair<std::string, std::string>> unused;
  ForEach([&](const std::string& sha256, const std::string& path) {
    const bool partial = path == PartialPath(sha256);
    if (partial ? uploads_.count(sha256) > 0 : used.count(sha256) > 0) return;
    struct stat info;
    if (lstat(path.c_str(), &info) == 0 &&
        absl::TimeFromTimespec(info.st_mtim) < before) {
      unused.emplace_back(sha256, path);
    }
  });
  int64_t freed = 0;
  for (const auto& [sha256, path] : unused) freed += RemoveBlob(sha256, path);
  return freed;
}

}  // namespace comera::server
