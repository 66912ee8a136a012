#ifndef COMERA_SERVER_DATASET_BLOB_STORE_H_
#define COMERA_SERVER_DATASET_BLOB_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/sha256.h"
#include "server/runtime/file_handle.h"

namespace comera::server {

class BlobUpload;

// The user who uploads a blob. The bytes that a user has sent and that are in no dataset
// yet are counted until they are, or are removed; after a restart no more.
struct BlobSender {
  std::string user;
  // What the user's datasets hold, and may hold; 0: any number of bytes.
  int64_t used_bytes = 0;
  int64_t max_bytes = 0;
};

// Contents named by their SHA-256 (64 lower-case hexadecimal digits, checked by
// the caller), below a folder:
//   blobs/ab/abcdef...      whole and verified; never changed
//   blobs/partial/abcdef... what arrived of uploads that broke off
// A blob appears whole or not at all, and stays after a crash. With a blob goes
// descriptions/abcdef..., which holds what others found out about it.
//
// Not thread-safe; everything blocks on the disk.
class BlobStore {
 public:
  struct Options {
    int64_t max_blob_bytes = int64_t{64} << 30;
    // The size of all blobs and parts together.
    int64_t quota_bytes = int64_t{1} << 40;
    // Left free on the disk, which the job store needs too. Checked as the
    // bytes come in.
    int64_t min_free_bytes = int64_t{256} << 20;
    // An upload that sends nothing for so long makes way for another of the
    // same blob.
    absl::Duration idle_upload = absl::Seconds(30);
  };

  // `clock` must outlive the store. Unavailable: the folder cannot be used.
  static absl::StatusOr<std::unique_ptr<BlobStore>> Open(
      const std::string& data_dir, const Options& options, Clock* clock);

  // Size of a whole blob. NotFound.
  absl::StatusOr<int64_t> Size(const std::string& sha256) const;
  // Bytes of a blob that is not whole.
  int64_t PartialSize(const std::string& sha256) const;
  std::string Path(const std::string& sha256) const;

  // Continues at what is there. Nothing is reserved: others may take the room
  // meanwhile, and what is announced takes it from nobody. OutOfRange: `offset`
  // is another. InvalidArgument: the blob is there with another size.
  // AlreadyExists: it is there. ResourceExhausted: too large, over a quota, or
  // no room on the disk. Unavailable: another upload of it is going on.
  absl::StatusOr<std::unique_ptr<BlobUpload>> BeginUpload(
      const std::string& sha256, int64_t size, int64_t offset,
      BlobSender sender = BlobSender());

  // The blob is in a dataset now.
  void Claim(const std::string& sha256);
  // What the user has sent and is in no dataset.
  int64_t UnclaimedBytes(const std::string& user) const;

  // Stores small contents at once; returns their digest. ResourceExhausted.
  absl::StatusOr<std::string> Put(std::string_view contents);
  // Checked contents. NotFound; DataLoss: damaged, or longer than max_bytes.
  absl::StatusOr<std::string> Read(const std::string& sha256,
                                   int64_t max_bytes) const;

  // Returns the bytes freed; 0: there was none.
  int64_t Remove(const std::string& sha256);
  // Removes blobs that are not `used` and parts, both last written before
  // `before`; returns the bytes freed.
  int64_t RemoveUnused(const std::set<std::string>& used, absl::Time before);

  int64_t used_bytes() const { return used_bytes_; }
  const Options& options() const { return options_; }

 private:
  friend class BlobUpload;

  BlobStore(const std::string& data_dir, const Options& options, Clock* clock);

  std::string PartialPath(const std::string& sha256) const;
  // Calls `visit` for every whole blob and every part.
  void ForEach(const std::function<void(const std::string& sha256,
                                        const std::string& path)>& visit) const;
  // ResourceExhausted unless `bytes` more may be stored.
  absl::Status CheckRoom(int64_t bytes) const;
  absl::Status CheckSender(const BlobSender& sender, int64_t bytes) const;
  // Counts bytes of the user that are in no dataset.
  void AddUnclaimed(const std::string& sha256, const std::string& user,
                    int64_t bytes);
  int64_t RemoveFile(const std::string& path);
  int64_t RemoveBlob(const std::string& sha256, const std::string& path);
  absl::Status Publish(const std::string& from, const std::string& sha256);

  const std::string folder_;
  const std::string descriptions_;
  const Options options_;
  Clock* const clock_;
  // Whole blobs and parts.
  int64_t used_bytes_ = 0;
  // Bytes of a blob that are in no dataset, and their user.
  struct Unclaimed {
    std::string user;
    int64_t bytes = 0;
  };
  std::map<std::string, Unclaimed> unclaimed_;
  std::map<std::string, int64_t> unclaimed_by_user_;
  std::map<std::string, BlobUpload*> uploads_;
};

// One blob on its way in. Must not outlive its store.
//
//   ASSIGN_OR_RETURN(auto upload, store->BeginUpload(sha256, size, offset));
//   while (!caught_up) ASSIGN_OR_RETURN(caught_up, upload->CatchUp(1 << 24));
//   RETURN_IF_ERROR(upload->Add(bytes));  // any number of times
//   RETURN_IF_ERROR(upload->Finish());
class BlobUpload {
 public:
  // Keeps what arrived, unless it turned out to be useless.
  ~BlobUpload();

  // Reads what was there before, at most `max_bytes` of it; true: that was all.
  absl::StatusOr<bool> CatchUp(int64_t max_bytes);
  // DataLoss: more than announced. ResourceExhausted: disk full, or over a
  // quota; what arrived before is kept. Aborted: another upload took over.
  absl::Status Add(std::string_view data);
  // Verifies and publishes. DataLoss: size or checksum differ (the bytes that
  // arrived are kept if they are only too few). Aborted.
  absl::Status Finish();

 private:
  friend class BlobStore;

  BlobUpload(BlobStore* store, std::string sha256, int64_t size,
             BlobSender sender);
  absl::Status Discard(const absl::Status& why);
  void Release();

  BlobStore* store_;  // null: done, or another upload took over
  const std::string sha256_;
  const int64_t size_;
  const BlobSender sender_;
  FileHandle file_;
  Sha256Stream hash_;
  int64_t hashed_ = 0;
  int64_t received_ = 0;
  bool discard_ = false;
  absl::Time last_activity_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_DATASET_BLOB_STORE_H_
