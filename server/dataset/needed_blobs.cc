// Finds out whether a worker's jobs read a blob.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/dataset/dataset_catalog.h"

namespace comera::server {

void DatasetCatalog::CheckNeeded(
    std::string worker, std::string sha256,
    std::function<void(const absl::Status&)> done) {
  host_->loop().Post([this, worker = std::move(worker),
                      sha256 = std::move(sha256), done = std::move(done)] {
    io_->Post([this, worker, sha256, done,
               digests = host_->engine().NeededDatasets(worker)] {
      for (const std::string& digest : digests) {
        if (digest == sha256) return done(absl::OkStatus());
        const absl::StatusOr<ManifestPtr> manifest = ReadManifest(digest);
        if (!manifest.ok()) continue;
        for (const v1::DatasetFile& file : (*manifest)->files()) {
          if (file.sha256() == sha256) return done(absl::OkStatus());
        }
      }
      done(absl::PermissionDeniedError(
          absl::StrCat("no job on ", worker, " reads this blob")));
    });
  });
}

}  // namespace comera::server
