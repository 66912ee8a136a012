#ifndef COMERA_SERVER_DATASET_DATASET_CATALOG_H_
#define COMERA_SERVER_DATASET_DATASET_CATALOG_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "comera/v1/dataset_service.pb.h"
#include "common/clock.h"
#include "server/auth/access.h"
#include "server/dataset/blob_store.h"
#include "server/dataset/dataset_manifest.h"
#include "server/dataset/dataset_record.pb.h"
#include "server/host/coordinator_host.h"
#include "server/host/dataset_pinner.h"
#include "server/host/idle_streams.h"
#include "server/runtime/event_loop.h"

namespace comera::server {

// The datasets: which versions there are, their files, who needs them.
//
// Threads: all methods may be called from any thread unless they say otherwise;
// callbacks come on the host's loop, once each, after what they tell is
// durable. What changes datasets happens one after the other. Files are touched
// on a thread of the catalog's own, so that a long upload does not hold up
// logs.
//
// Life cycle: Start() after the host; destroyed after the host's Stop() and the
// RPC server, before the host.
//
// Guarantees: a version appears whole, and its blobs stay while it is there; a
// version that an unfinished job or another user needs cannot be deleted.
class DatasetCatalog : public DatasetPinner {
 public:
  struct Options {
    BlobStore::Options blobs;
    ManifestLimits limits;
    int max_datasets = 10000;
    int max_versions = 1000;
    // Blobs without a dataset, and parts of blobs, are removed after this.
    absl::Duration keep_unused = absl::Hours(24);
    absl::Duration sweep_interval = absl::Hours(1);
    // Uploads that bring no data for so long are ended; how often they are
    // looked for.
    absl::Duration idle_upload = absl::Seconds(30);
    absl::Duration idle_check = absl::Seconds(1);
    // Downloads whose client does not take a piece for so long are ended.
    absl::Duration stalled_download = absl::Seconds(60);
  };
  template <typename T>
  using Callback = std::function<void(absl::StatusOr<T>)>;
  // Names one that needs the version `datasets/{d}@{n}`; empty: none. Called on
  // the loop.
  using UserFinder = std::function<std::string(const std::string& version)>;

  // Loads the host's store. DataLoss: damaged. Unavailable: the folder cannot
  // be used. The pointers must outlive the catalog.
  static absl::StatusOr<std::unique_ptr<DatasetCatalog>> Start(
      const Options& options, CoordinatorHost* host, Clock* clock);
  ~DatasetCatalog() override;

  // Errors of these are those of DatasetService.
  //
  // The request must stay until `done` is called: it may be large, and is not
  // copied.
  void Create(const v1::CreateDatasetRequest* request,
              std::shared_ptr<const Caller> caller, Callback<v1::Dataset> done);
  void Get(std::string name, Callback<v1::Dataset> done);
  void List(v1::ListDatasetsRequest request,
            Callback<v1::ListDatasetsResponse> done);
  void ListFiles(v1::ListDatasetFilesRequest request,
                 Callback<v1::ListDatasetFilesResponse> done);
  // Answers with the bytes freed.
  void Delete(std::string name, std::shared_ptr<const Caller> caller,
              Callback<int64_t> done);
  // `done` gets the version and its files, on the catalog's IO thread.
  using FilesDone =
      std::function<void(absl::StatusOr<v1::DatasetVersion> version,
                         std::shared_ptr<const v1::DatasetManifest> manifest)>;
  void OpenVersion(std::string name, FilesDone done);

  // Tells whether a job that the worker runs, or is about to run, reads the
  // blob: PermissionDenied. `done` is called on the IO thread.
  void CheckNeeded(std::string worker, std::string sha256,
                   std::function<void(const absl::Status&)> done);

  // What a user who uploads has in datasets already; `done` is called on the IO
  // thread.
  void FindSender(std::string user, std::function<void(BlobSender)> done);

  // On the loop, as in DatasetPinner.
  void Pin(const v1::JobSpec& spec, Callback<PinnedDatasets> done) override;

  // Another kind of user than jobs, e.g. sweeps. Before the RPC server starts.
  void AddUsers(UserFinder finder) { finders_.push_back(std::move(finder)); }

  // Removes what has been unused for long; for tests, else by itself.
  void Sweep(std::function<void(int64_t freed)> done);

  EventLoop& io() { return *io_; }
  EventLoop& loop() { return host_->loop(); }
  // Whether anything may be added now. ResourceExhausted: not while the disk is
  // full. Any thread.
  absl::Status CheckWritable() const { return host_->CheckWritable(); }
  // IO thread only.
  BlobStore& blobs() { return *blobs_; }
  IdleStreams& idle_uploads() { return idle_uploads_; }
  IdleStreams& slow_downloads() { return slow_downloads_; }

 private:
  // Versions that are being pinned, with their number. Outlives the catalog.
  struct Holds {
    std::mutex mutex;
    std::multiset<std::string> versions ABSL_GUARDED_BY(mutex);
  };
  using ManifestPtr = std::shared_ptr<const v1::DatasetManifest>;
  // A list of files that has been checked, and is not stored yet.
  struct CheckedList {
    // The version that the list makes, without number and name.
    v1::DatasetVersion version;
    // The list as it is stored.
    std::string stored;
    // The digests of its files.
    std::vector<std::string> blobs;
  };
  using CheckedListPtr = std::shared_ptr<const CheckedList>;
  // Ends a mutation; on the loop.
  using Finished = std::function<void()>;

  DatasetCatalog(const Options& options, CoordinatorHost* host, Clock* clock);

  absl::Status Load();
  // Loop: counts an operation until the returned closure is called there.
  void Begin();
  void End();
  // Any thread; runs one after the other on the loop.
  void Mutate(std::function<void(Finished)> mutation);
  void NextMutation();
  // Loop: makes the record (none: the deletion) durable, then calls `then`.
  void Commit(const std::string& id, const DatasetRecord* record,
              std::function<void(absl::Status)> then);

  // Loop.
  absl::Status CheckCreate(const v1::CreateDatasetRequest& request,
                           const Caller& caller) const;
  absl::StatusOr<v1::DatasetVersion> FindVersion(const std::string& name) const;
  void AddVersion(const v1::CreateDatasetRequest& request,
                  const std::string& user, CheckedListPtr list,
                  Callback<v1::Dataset> done);
  void CommitVersion(const std::string& id, const DatasetRecord& record,
                     Callback<v1::Dataset> done);
  // How many datasets the user has, and the bytes of their versions, lists of
  // files included.
  struct Use {
    int64_t datasets = 0;
    int64_t bytes = 0;
  };
  Use UseOf(const std::string& user) const;
  absl::Status CheckUnused(const std::string& version) const;
  void DeleteVersions(const std::string& name, const Caller& caller,
                      Callback<int64_t> done);
  // Digests of all versions' manifests.
  std::vector<std::string> Digests() const;
  void MaybeSweep();

  // IO thread.
  absl::StatusOr<CheckedListPtr> CheckList(
      const v1::CreateDatasetRequest& request);
  absl::StatusOr<ManifestPtr> ReadManifest(const std::string& digest);
  // The digests of its blobs; null: the manifest cannot be read.
  using BlobSetPtr = std::shared_ptr<const std::unordered_set<std::string>>;
  BlobSetPtr BlobSetOf(const std::string& digest);
  // The blobs that these manifests hold, and the manifests.
  absl::StatusOr<std::set<std::string>> BlobsOf(
      const std::vector<std::string>& digests);
  int64_t RemoveBlobs(const std::vector<std::string>& deleted,
                      const std::vector<std::string>& remaining);

  const Options options_;
  CoordinatorHost* const host_;
  Clock* const clock_;
  std::vector<UserFinder> finders_;
  const std::shared_ptr<Holds> holds_ = std::make_shared<Holds>();

  // Loop only.
  std::map<std::string, DatasetRecord> records_;
  std::set<std::string> deleting_;
  std::deque<std::function<void(Finished)>> mutations_;
  bool mutating_ = false;
  bool closing_ = false;
  absl::Time next_sweep_ = absl::InfinitePast();

  // IO thread only.
  std::unique_ptr<BlobStore> blobs_;
  IdleStreams idle_uploads_;
  IdleStreams slow_downloads_;
  // The manifests read last.
  std::deque<std::pair<std::string, ManifestPtr>> manifests_;
  // The digests of a manifest's blobs, those asked for last at the front.
  std::list<std::pair<std::string, BlobSetPtr>> blob_sets_;

  std::mutex mutex_;
  std::condition_variable idle_;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<EventLoop> io_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_DATASET_DATASET_CATALOG_H_
