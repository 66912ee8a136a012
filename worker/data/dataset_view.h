#ifndef COMERA_WORKER_DATA_DATASET_VIEW_H_
#define COMERA_WORKER_DATA_DATASET_VIEW_H_

#include <functional>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "worker/data/dataset_cache.h"

namespace comera::worker {

// How much of a job's data has been fetched.
struct FetchProgress {
  int64_t done_bytes = 0;
  int64_t total_bytes = 0;
};

// Fetches the files that the spec's dataset paths name, at the versions in
// `pins`, and returns the spec with local paths in their place. `lease` holds
// the files. `on_progress` is called as bytes come.
//
// InvalidArgument, DataLoss: a path is not in its dataset, or the list of files
// is damaged. NotFound: the coordinator does not have the dataset. Other errors
// are those of DatasetCache::Get.
absl::StatusOr<v1::JobSpec> FetchDatasets(
    const v1::JobSpec& spec,
    const google::protobuf::RepeatedPtrField<v1::DatasetPin>& pins,
    DatasetCache* cache, BlobSource* source, const std::atomic<bool>& cancelled,
    const std::function<void(const FetchProgress&)>& on_progress,
    DatasetCache::Lease* lease);

}  // namespace comera::worker

#endif  // COMERA_WORKER_DATA_DATASET_VIEW_H_
