// Resolves a spec's dataset paths to files, fetches these, and lays them out
// under local paths.

#include "worker/data/dataset_view.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "comera/v1/dataset_service.pb.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "proto/data_paths.h"
#include "proto/dataset_names.h"

namespace comera::worker {
namespace {

// A file to fetch, and the view in which it must appear.
struct Wanted {
  v1::DatasetFile file;
  std::string digest;
  std::string version;
};

absl::StatusOr<v1::DatasetManifest> ReadManifest(
    const v1::DatasetPin& pin, DatasetCache* cache,
    const DatasetCache::Fetch& fetch, DatasetCache::Lease* lease) {
  if (!IsSha256(pin.digest())) {
    return absl::InvalidArgumentError("a dataset's digest is malformed");
  }
  ASSIGN_OR_RETURN(const std::string path,
                   cache->Get(pin.digest(), -1, fetch, lease));
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  v1::DatasetManifest manifest;
  if (!manifest.ParseFromString(bytes)) {
    return absl::DataLossError(
        absl::StrCat(pin.version(), ": its list of files is damaged"));
  }
  return manifest;
}

// Whether `path`, a file, a folder or a pattern, stands for the file.
bool StandsFor(const std::string& path, PathKind kind,
               const std::string& file) {
  return path.empty() || file == path ||
         absl::StartsWith(file, absl::StrCat(path, "/")) ||
         (kind == PathKind::kFiles && IsFilePattern(path) &&
          MatchesFilePattern(path, file));
}

// Selects the manifest's files that `path` stands for.
absl::Status Select(const v1::DatasetManifest& manifest,
                    const v1::DatasetPin& pin, const std::string& path,
                    PathKind kind, std::map<std::string, Wanted>* wanted) {
  bool found = false;
  for (const v1::DatasetFile& file : manifest.files()) {
    if (!StandsFor(path, kind, file.path())) continue;
    if (!IsDatasetPath(file.path()) || !IsSha256(file.sha256()) ||
        file.size_bytes() < 0) {
      return absl::DataLossError(
          absl::StrCat(pin.version(), ": its list of files is damaged"));
    }
    found = true;
    (*wanted)[absl::StrCat(pin.digest(), "/", file.path())] = {
        file, pin.digest(), pin.version()};
  }
  if (found) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(pin.version(), " has no ", path));
}

}  // namespace

absl::StatusOr<v1::JobSpec> FetchDatasets(
    const v1::JobSpec& spec,
    const google::protobuf::RepeatedPtrField<v1::DatasetPin>& pins,
    DatasetCache* cache, BlobSource* source, const std::atomic<bool>& cancelled,
    const std::function<void(const FetchProgress&)>& on_progress,
    DatasetCache::Lease* lease) {
  DatasetCache::Fetch fetch;
  fetch.source = source;
  fetch.cancelled = &cancelled;
  v1::JobSpec local = spec;
  std::map<std::string, Wanted> wanted;
  std::map<std::string, v1::DatasetManifest> manifests;
  for (const DataPath& path : DataPaths(&local)) {
    const auto reference = ParseDatasetReference(*path.path);
    if (!reference) continue;
    const v1::DatasetPin* pin = nullptr;
    for (const v1::DatasetPin& candidate : pins) {
      if (candidate.reference() == DatasetPart(*reference)) pin = &candidate;
    }
    if (pin == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(path.field, ": ", *path.path, " means no dataset"));
    }
    if (manifests.count(pin->digest()) == 0) {
      ASSIGN_OR_RETURN(manifests[pin->digest()],
                       ReadManifest(*pin, cache, fetch, lease));
    }
    RETURN_IF_ERROR(Select(manifests[pin->digest()], *pin, reference->path,
                           path.kind, &wanted));
    *path.path = cache->View(pin->digest());
    if (!reference->path.empty()) {
      absl::StrAppend(path.path, "/", reference->path);
    }
  }
  FetchProgress progress;
  // Equal files count once, as they do in the cache.
  std::set<std::string> counted;
  int64_t needed = 0;
  for (const auto& [key, one] : wanted) {
    if (!counted.insert(one.file.sha256()).second) continue;
    const absl::Status fits = cache->AddSize(one.file.size_bytes(), &needed);
    if (!fits.ok()) {
      return absl::Status(fits.code(),
                          absl::StrCat(one.version, "/", one.file.path(), ": ",
                                       fits.message()));
    }
  }
  for (const auto& [key, one] : wanted) {
    progress.total_bytes += one.file.size_bytes();
  }
  fetch.on_bytes = [&](int64_t bytes) {
    progress.done_bytes += bytes;
    on_progress(progress);
  };
  int64_t done = 0;
  for (const auto& [key, one] : wanted) {
    const auto path =
        cache->Get(one.file.sha256(), one.file.size_bytes(), fetch, lease);
    if (!path.ok()) {
      return absl::Status(path.status().code(),
                          absl::StrCat(one.version, "/", one.file.path(), ": ",
                                       path.status().message()));
    }
    RETURN_IF_ERROR(
        cache->Link(one.file.sha256(), one.digest, one.file.path()));
    // A file that was fetched twice counts once.
    done += one.file.size_bytes();
    progress.done_bytes = done;
  }
  return local;
}

}  // namespace comera::worker
