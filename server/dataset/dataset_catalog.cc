// The catalog's start and stop, its order of mutations, and its look-ups.
#include "server/dataset/dataset_catalog.h"

#include <algorithm>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "proto/dataset_names.h"
#include "server/host/commit.h"
#include "server/rpc/proto_time.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {
namespace {

constexpr char kKind[] = "dataset";
constexpr size_t kMaxManifests = 4;

}  // namespace

DatasetCatalog::DatasetCatalog(const Options& options, CoordinatorHost* host,
                               Clock* clock)
    : options_(options),
      host_(host),
      clock_(clock),
      idle_uploads_(options.idle_upload, clock),
      slow_downloads_(options.stalled_download, clock) {
  EventLoop::Options io;
  io.tick_interval = options.idle_check;
  io.on_tick = [this] {
    idle_uploads_.EndIdle();
    slow_downloads_.EndIdle();
  };
  io_ = std::make_unique<EventLoop>(std::move(io));
}

absl::StatusOr<std::unique_ptr<DatasetCatalog>> DatasetCatalog::Start(
    const Options& options, CoordinatorHost* host, Clock* clock) {
  std::unique_ptr<DatasetCatalog> catalog(
      new DatasetCatalog(options, host, clock));
  ASSIGN_OR_RETURN(catalog->blobs_,
                   BlobStore::Open(host->data_dir(), options.blobs, clock));
  RETURN_IF_ERROR(catalog->Load());
  LOG(INFO) << "event=loaded datasets=" << catalog->records_.size()
            << " blob_bytes=" << catalog->blobs_->used_bytes();
  return catalog;
}

absl::Status DatasetCatalog::Load() {
  using Documents = absl::StatusOr<std::vector<Document>>;
  std::promise<Documents> loaded;
  host_->loop().Run([&] {
    StoreThread* store = host_->store();
    if (store == nullptr) {
      return loaded.set_value(absl::UnavailableError("stopping"));
    }
    store->Read(
        [&](JobStore* jobs) { loaded.set_value(jobs->LoadDocuments(kKind)); });
  });
  ASSIGN_OR_RETURN(const std::vector<Document> documents,
                   loaded.get_future().get());
  for (const Document& document : documents) {
    DatasetRecord record;
    if (!document.body || !record.ParseFromString(*document.body)) {
      return absl::DataLossError(
          absl::StrCat("the store's dataset ", document.name, " is damaged"));
    }
    records_[document.name] = std::move(record);
  }
  return absl::OkStatus();
}

// Whatever runs ends by itself: loop, store and IO thread still work. New
// operations are refused from here on.
DatasetCatalog::~DatasetCatalog() {
  host_->loop().Run([this] { closing_ = true; });
  {
    std::unique_lock<std::mutex> lock(mutex_);
    idle_.wait(lock, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return running_ == 0;
    });
  }
  io_.reset();
  // What the IO thread posted last.
  host_->loop().Run([] {});
}

void DatasetCatalog::Begin() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++running_;
}

void DatasetCatalog::End() {
  const std::lock_guard<std::mutex> lock(mutex_);
  --running_;
  idle_.notify_all();
}

void DatasetCatalog::Mutate(std::function<void(Finished)> mutation) {
  Begin();
  host_->loop().Post([this, mutation = std::move(mutation)]() mutable {
    mutations_.push_back(std::move(mutation));
    NextMutation();
  });
}

void DatasetCatalog::NextMutation() {
  if (mutating_ || mutations_.empty()) return;
  mutating_ = true;
  const auto mutation = std::move(mutations_.front());
  mutations_.pop_front();
  mutation([this] {
    mutating_ = false;
    NextMutation();
    End();
  });
}

void DatasetCatalog::Commit(const std::string& id, const DatasetRecord* record,
                            std::function<void(absl::Status)> then) {
  Document document;
  document.kind = kKind;
  document.name = id;
  if (record != nullptr) document.body = record->SerializeAsString();
  StoreBatch batch;
  batch.documents.push_back(std::move(document));
  CommitThen(closing_ ? nullptr : host_->store(), &host_->loop(),
             std::move(batch), std::move(then));
}

absl::StatusOr<v1::DatasetVersion> DatasetCatalog::FindVersion(
    const std::string& name) const {
  const auto reference = ParseDatasetReference(name);
  if (!reference || !reference->path.empty()) {
    return InvalidField("name", "must be datasets/{dataset}[@{version}]");
  }
  const auto found = records_.find(reference->dataset);
  if (found == records_.end()) {
    return absl::NotFoundError(
        absl::StrCat("no dataset ", DatasetName(reference->dataset)));
  }
  const auto& versions = found->second.dataset().versions();
  for (auto it = versions.rbegin(); it != versions.rend(); ++it) {
    if (deleting_.count(it->name()) > 0) continue;
    if (reference->version == 0 || reference->version == it->number()) {
      return *it;
    }
  }
  return absl::NotFoundError(absl::StrCat("no version ", name));
}

void DatasetCatalog::OpenVersion(std::string name, FilesDone done) {
  Begin();
  host_->loop().Post([this, name = std::move(name), done = std::move(done)] {
    const absl::StatusOr<v1::DatasetVersion> version = FindVersion(name);
    io_->Post([this, version, done] {
      if (!version.ok()) {
        done(version.status(), nullptr);
      } else if (auto manifest = ReadManifest(version->digest());
                 manifest.ok()) {
        done(version, *manifest);
      } else {
        done(manifest.status(), nullptr);
      }
      End();
    });
  });
}

absl::StatusOr<DatasetCatalog::ManifestPtr> DatasetCatalog::ReadManifest(
    const std::string& digest) {
  for (const auto& [known, manifest] : manifests_) {
    if (known == digest) return manifest;
  }
  const auto bytes = blobs_->Read(digest, kMaxManifestBytes);
  if (!bytes.ok()) {
    return absl::DataLossError(
        absl::StrCat("a dataset's list of files: ", bytes.status().message()));
  }
  ASSIGN_OR_RETURN(v1::DatasetManifest parsed, ParseManifest(*bytes));
  auto manifest =
      std::make_shared<const v1::DatasetManifest>(std::move(parsed));
  manifests_.emplace_front(digest, manifest);
  if (manifests_.size() > kMaxManifests) manifests_.pop_back();
  return manifest;
}

}  // namespace comera::server
