// What the dataset paths of jobs mean, for a coordinator's host.
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/data_paths.h"
#include "proto/dataset_names.h"
#include "server/host/coordinator_host.h"

namespace comera::server {

void CoordinatorHost::PinDatasets(v1::JobSpec spec,
                                  Callback<PinnedDatasets> done) {
  for (const DataPath& path : DataPaths(&spec)) {
    if (!IsDatasetReference(*path.path)) continue;
    if (pinner_ == nullptr) {
      return done(absl::InvalidArgumentError(
          absl::StrCat(path.field, ": this server keeps no datasets")));
    }
    return pinner_->Pin(spec, std::move(done));
  }
  done(PinnedDatasets());
}

void CoordinatorHost::CheckDatasets(v1::JobSpec spec, StatusCallback done) {
  loop_->Post([this, spec = std::move(spec), done = std::move(done)] {
    if (stopping_) return done(StoppingError());
    PinDatasets(spec, [done](const absl::StatusOr<PinnedDatasets>& datasets) {
      done(datasets.status());
    });
  });
}

}  // namespace comera::server
