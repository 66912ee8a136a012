#ifndef COMERA_WORKER_DATA_URL_VIEW_H_
#define COMERA_WORKER_DATA_URL_VIEW_H_

#include <atomic>
#include <functional>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "google/protobuf/repeated_field.h"
#include "worker/data/dataset_cache.h"
#include "worker/data/dataset_view.h"
#include "worker/data/remote_files.h"

namespace comera::worker {

// Whether one of the spec's paths of data is a URL.
bool NamesUrls(const v1::JobSpec& spec);

// Fetches the files at the spec's URLs in the versions that they have now, and
// returns the spec with local paths in their place. A local path names the
// contents (FetchedUrlDigest in proto/data_url.h). `lease` holds the files.
// `on_progress` is called as bytes come. A null `files` allows no URL.
//
// Errors name the field and the URL without its query. InvalidArgument: the URL
// is not allowed, or the server refuses it. NotFound. Other errors are those of
// RemoteFiles::Find and DatasetCache::GetVersion.
absl::StatusOr<v1::JobSpec> FetchUrls(
    const v1::JobSpec& spec, const RemoteFiles* files, DatasetCache* cache,
    const std::atomic<bool>& cancelled,
    const std::function<void(const FetchProgress&)>& on_progress,
    DatasetCache::Lease* lease);

// Adds to `pins`, which tell the datasets that a job may read, a pin for each
// URL in `named`; `fetched` is what FetchUrls has made of `named`.
void PinUrls(const v1::JobSpec& named, const v1::JobSpec& fetched,
             google::protobuf::RepeatedPtrField<v1::DatasetPin>* pins);

}  // namespace comera::worker

#endif  // COMERA_WORKER_DATA_URL_VIEW_H_
