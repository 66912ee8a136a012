// Finds out whether a worker's jobs read a blob.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/dataset/dataset_catalog.h"

namespace comera::server {
namespace {

// Each has up to 100,000 digests.
constexpr size_t kMaxBlobSets = 16;

}  // namespace

DatasetCatalog::BlobSetPtr DatasetCatalog::BlobSetOf(
    const std::string& digest) {
  for (auto known = blob_sets_.begin(); known != blob_sets_.end(); ++known) {
    if (known->first != digest) continue;
    blob_sets_.splice(blob_sets_.begin(), blob_sets_, known);
    return known->second;
  }
  const absl::StatusOr<ManifestPtr> manifest = ReadManifest(digest);
  if (!manifest.ok()) return nullptr;
  auto blobs = std::make_shared<std::unordered_set<std::string>>();
  for (const v1::DatasetFile& file : (*manifest)->files()) {
    blobs->insert(file.sha256());
  }
  blob_sets_.emplace_front(digest, blobs);
  if (blob_sets_.size() > kMaxBlobSets) blob_sets_.pop_back();
  return blobs;
}

void DatasetCatalog::CheckNeeded(
    std::string worker, std::string sha256,
    std::function<void(const absl::Status&)> done) {
  host_->loop().Post([this, worker = std::move(worker),
                      sha256 = std::move(sha256), done = std::move(done)] {
    io_->Post([this, worker, sha256, done,
               digests = host_->engine().NeededDatasets(worker)] {
      for (const std::string& digest : digests) {
        if (digest == sha256) return done(absl::OkStatus());
        const BlobSetPtr blobs = BlobSetOf(digest);
        if (blobs != nullptr && blobs->count(sha256) > 0) {
          return done(absl::OkStatus());
        }
      }
      done(absl::PermissionDeniedError(
          absl::StrCat("no job on ", worker, " reads this blob")));
    });
  });
}

}  // namespace comera::server
