#ifndef COMERA_WORKER_DATA_DATASET_CACHE_H_
#define COMERA_WORKER_DATA_DATASET_CACHE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/data/blob_source.h"

namespace comera::worker {

// Blobs of datasets on this machine's disk, within a bound:
//   blobs/ab/abcdef...     whole and verified
//   partial/abcdef...      on their way in; a broken fetch goes on there
//   partial/url-abcdef...  the same for what comes from a URL, until it is
//                          given up, another version is there, or the cache is
//                          opened anew
//   views/<digest>/<path>  hard links to blobs under the names that a dataset's
//                          version, known by its manifest's digest, has for
//                          them
//   versions/abcdef...     the SHA-256 of what came from a URL; the name is a
//                          digest of the URL and the version of its file
// The least recently used files are evicted first, never one that a Lease
// holds. When several callers want the same blob, one fetches it and the others
// wait.
//
// Thread-safe. Leases must end before the cache does.
class DatasetCache {
 public:
  struct Options {
    int64_t max_bytes = int64_t{64} << 30;
    // The space to leave free on the disk.
    int64_t min_free_bytes = int64_t{256} << 20;
    // The digests of the views from which members of an earlier process still
    // read. See KeepView.
    std::set<std::string> kept_views;
  };

  // Keeps the blobs in use from being evicted. Move-only; not thread-safe.
  class Lease {
   public:
    explicit Lease(DatasetCache* cache) : cache_(cache) {}
    ~Lease() { cache_->Release(blobs_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

   private:
    friend class DatasetCache;
    DatasetCache* const cache_;
    std::set<std::string> blobs_;
  };

  // Where a blob comes from, and on whose behalf.
  struct Fetch {
    BlobSource* source = nullptr;
    const std::atomic<bool>* cancelled = nullptr;
    // Receives the number of bytes as they come; may be empty.
    std::function<void(int64_t)> on_bytes;
  };

  // Opens the cache and removes the views of earlier processes that are not to
  // be kept. Unavailable: the folder cannot be used.
  static absl::StatusOr<std::unique_ptr<DatasetCache>> Open(
      const std::string& folder, const Options& options);

  // Returns the path of the blob's file and adds the blob to `lease`. A `size`
  // of -1 means unknown, at most kMaxUnknownBytes. Returns the errors of the
  // source. DataLoss: the bytes do not match the name. ResourceExhausted: the
  // bound or the disk is full. Cancelled: `fetch.cancelled` was set.
  // Unavailable or FailedPrecondition also: the cache's own files fail.
  absl::StatusOr<std::string> Get(const std::string& sha256, int64_t size,
                                  const Fetch& fetch, Lease* lease);
  static constexpr int64_t kMaxUnknownBytes = int64_t{128} << 20;
  // How many versions of URLs may be known to have the same contents.
  static constexpr size_t kMaxVersionsOfBlob = 64;

  // Does the same for contents whose SHA-256 is not known before: `version`
  // names them to the source, has the form of a SHA-256, and always stands for
  // the same bytes. Returns their SHA-256, by which they can be linked.
  absl::StatusOr<std::string> GetVersion(const std::string& version,
                                         int64_t size, const Fetch& fetch,
                                         Lease* lease);

  // Adds `bytes`, the size of one more file that a job needs, to `*sum`.
  // ResourceExhausted: so much can never fit, whatever is evicted. DataLoss:
  // the size is negative.
  absl::Status AddSize(int64_t bytes, int64_t* sum) const;

  // The folder that holds a version's files under their own names.
  std::string View(const std::string& digest) const;
  // Makes the leased blob appear in the view under `path`, a path of the
  // dataset.
  absl::Status Link(const std::string& sha256, const std::string& digest,
                    const std::string& path);

  // Adds the blobs that a kept view has under its names to `lease`.
  void KeepView(const std::string& digest, Lease* lease);

  // The bytes of complete blobs and of reservations.
  int64_t used_bytes() const;
  // Wakes callers that wait for another's fetch, so that they check whether
  // they were cancelled.
  void Wake();

 private:
  struct Entry {
    int64_t size = 0;
    absl::Time last_use;
    int leases = 0;
    // The hard links to the blob in views.
    std::set<std::string> links;
  };

  // Turns an error of this machine's files into one that lays no blame on the
  // data and names no path; the log gets all of it.
  static absl::Status Fault(const absl::Status& detail);

  DatasetCache(std::string folder, const Options& options)
      : folder_(std::move(folder)), options_(options) {}

  std::string BlobPath(const std::string& sha256) const;
  std::string VersionPath(const std::string& version) const;
  void Scan() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ScanVersions() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ScanViews() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts one more use and renews the time of the last one.
  void AddUse(const std::string& sha256, Entry& entry, Lease* lease)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status MakeRoom(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool EvictOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool RemoveParts() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Release(const std::set<std::string>& blobs);
  // How a source calls a blob.
  enum class NamedBy { kContents, kVersion };
  std::string PartialPath(const std::string& name, NamedBy named_by) const;
  struct Downloaded {
    std::string sha256;
    int64_t size = 0;
  };
  // Moves what has been downloaded in place and leases it.
  absl::Status Claim(const std::string& name, NamedBy named_by,
                     const Downloaded& downloaded, Lease* lease)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Remembers that the version has these contents.
  void AddVersion(const std::string& version, const std::string& sha256)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the SHA-256 of the leased contents.
  absl::StatusOr<std::string> Obtain(const std::string& name, NamedBy named_by,
                                     int64_t size, const Fetch& fetch,
                                     Lease* lease);
  // Downloads to the partial file without holding the lock.
  absl::StatusOr<Downloaded> Download(const std::string& name, NamedBy named_by,
                                      int64_t size, const Fetch& fetch);

  const std::string folder_;
  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  // The SHA-256 of each version's contents, which are in entries_.
  std::map<std::string, std::string> versions_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> fetching_ ABSL_GUARDED_BY(mutex_);
  int64_t used_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_DATA_DATASET_CACHE_H_
