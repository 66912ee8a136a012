// Fetches the files at a spec's URLs and puts local paths in their place.

#include "worker/data/url_view.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "proto/data_paths.h"
#include "proto/data_url.h"

namespace comera::worker {
namespace {

// A file to fetch.
struct Wanted {
  RemoteFiles::File file;
  DataUrl url;
  // The first field that names it.
  std::string field;
  std::string local;
};

absl::Status At(const std::string& field, const DataUrl& url,
                const absl::Status& status) {
  return absl::Status(
      status.code(),
      absl::StrCat(field, ": ", WithoutQuery(url), ": ", status.message()));
}

}  // namespace

bool NamesUrls(const v1::JobSpec& spec) {
  v1::JobSpec copy = spec;
  for (const DataPath& path : DataPaths(&copy)) {
    if (HasUrlScheme(*path.path)) return true;
  }
  return false;
}

absl::StatusOr<v1::JobSpec> FetchUrls(
    const v1::JobSpec& spec, const RemoteFiles* files, DatasetCache* cache,
    const std::atomic<bool>& cancelled,
    const std::function<void(const FetchProgress&)>& on_progress,
    DatasetCache::Lease* lease) {
  v1::JobSpec local = spec;
  std::map<std::string, Wanted> wanted;
  FetchProgress progress;
  for (const DataPath& path : DataPaths(&local)) {
    if (!HasUrlScheme(*path.path) || wanted.count(*path.path) > 0) continue;
    const absl::StatusOr<DataUrl> url = ParseDataUrl(*path.path);
    if (!url.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path.field, ": is no URL of data: ", url.status().message()));
    }
    if (files == nullptr) {
      return At(path.field, *url,
                absl::InvalidArgumentError(
                    "this worker may read no URLs: its operator allows them "
                    "with --data_url"));
    }
    absl::StatusOr<RemoteFiles::File> file = files->Find(*url, cancelled);
    if (!file.ok()) return At(path.field, *url, file.status());
    const absl::Status fits = cache->AddSize(file->size, &progress.total_bytes);
    if (!fits.ok()) return At(path.field, *url, fits);
    wanted.emplace(*path.path,
                   Wanted{*std::move(file), *url, path.field, /*local=*/""});
  }
  DatasetCache::Fetch fetch;
  fetch.cancelled = &cancelled;
  fetch.on_bytes = [&](int64_t bytes) {
    progress.done_bytes += bytes;
    on_progress(progress);
  };
  int64_t done = 0;
  for (auto& [text, one] : wanted) {
    fetch.source = one.file.source.get();
    const absl::StatusOr<std::string> sha256 =
        cache->GetVersion(one.file.version, one.file.size, fetch, lease);
    if (!sha256.ok()) return At(one.field, one.url, sha256.status());
    // The digest of no dataset's list of files.
    const std::string digest = Sha256Hex(absl::StrCat("url\n", *sha256));
    const std::string name =
        absl::StrCat(kFetchedUrlFolder, "/", FileName(one.url));
    RETURN_IF_ERROR(cache->Link(*sha256, digest, name));
    one.local = absl::StrCat(cache->View(digest), "/", name);
    // A file that was fetched twice counts once.
    done += one.file.size;
    progress.done_bytes = done;
  }
  for (const DataPath& path : DataPaths(&local)) {
    const auto found = wanted.find(*path.path);
    if (found != wanted.end()) *path.path = found->second.local;
  }
  return local;
}

void PinUrls(const v1::JobSpec& named, const v1::JobSpec& fetched,
             google::protobuf::RepeatedPtrField<v1::DatasetPin>* pins) {
  v1::JobSpec before = named, after = fetched;
  const std::vector<DataPath> urls = DataPaths(&before);
  const std::vector<DataPath> paths = DataPaths(&after);
  for (size_t i = 0; i < urls.size() && i < paths.size(); ++i) {
    if (!HasUrlScheme(*urls[i].path)) continue;
    pins->Add()->set_digest(std::string(FetchedUrlDigest(*paths[i].path)));
  }
}

}  // namespace comera::worker
