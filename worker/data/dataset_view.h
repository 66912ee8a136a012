#ifndef COMERA_WORKER_DATA_DATASET_VIEW_H_
#define COMERA_WORKER_DATA_DATASET_VIEW_H_

#include <functional>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "worker/data/dataset_cache.h"

namespace comera::worker {

// How far the fetching of a job's data is.
struct FetchProgress {
  int64_t done_bytes = 0;
  int64_t total_bytes = 0;
};

// Brings what the spec's dataset paths name, by `pins`, to this machine and
// returns the spec with local paths in their place. What it needs is held by
// `lease`. `on_progress` is called as bytes come.
//
// InvalidArgument, DataLoss: a path that is not in its dataset, or a damaged
// list of files. NotFound: the coordinator does not have it. Others as
// DatasetCache::Get.
absl::StatusOr<v1::JobSpec> FetchDatasets(
    const v1::JobSpec& spec,
    const google::protobuf::RepeatedPtrField<v1::DatasetPin>& pins,
    DatasetCache* cache, BlobSource* source, const std::atomic<bool>& cancelled,
    const std::function<void(const FetchProgress&)>& on_progress,
    DatasetCache::Lease* lease);

}  // namespace comera::worker

#endif  // COMERA_WORKER_DATA_DATASET_VIEW_H_
