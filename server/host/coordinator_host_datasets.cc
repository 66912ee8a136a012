// What the dataset paths of jobs mean, for a coordinator's host.
#include <map>
#include <string>
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

void CoordinatorHost::PinAgain(const v1::Job& job,
                               Callback<PinnedDatasets> done) {
  v1::JobSpec spec = job.spec();
  std::map<std::string, std::string> digests;
  for (const v1::DatasetPin& pin : job.datasets()) {
    digests[pin.version()] = pin.digest();
  }
  // The versions that it had at submission, whatever came since.
  for (const DataPath& path : DataPaths(&spec)) {
    const auto reference = ParseDatasetReference(*path.path);
    if (!reference) continue;
    const std::string part = DatasetPart(*reference);
    for (const v1::DatasetPin& pin : job.datasets()) {
      if (pin.reference() != part) continue;
      *path.path = pin.version();
      if (!reference->path.empty()) {
        absl::StrAppend(path.path, "/", reference->path);
      }
    }
  }
  PinDatasets(spec, [done, digests = std::move(digests)](
                        const absl::StatusOr<PinnedDatasets>& pinned) {
    if (!pinned.ok()) {
      return done(absl::IsInvalidArgument(pinned.status())
                      ? absl::FailedPreconditionError(pinned.status().message())
                      : pinned.status());
    }
    for (const v1::DatasetPin& pin : pinned->pins) {
      const auto known = digests.find(pin.version());
      if (known == digests.end() || known->second == pin.digest()) continue;
      return done(absl::FailedPreconditionError(absl::StrCat(
          pin.version(), " was deleted, and made anew of other files")));
    }
    done(pinned);
  });
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
