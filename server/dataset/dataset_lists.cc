// What is shown of datasets, and what paths in jobs mean.
#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "proto/data_paths.h"
#include "proto/dataset_names.h"
#include "server/dataset/dataset_catalog.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {
namespace {

constexpr int kDefaultPage = 50;
constexpr int kMaxPage = 1000;
// Pages stay below the 4 MiB that gRPC clients take by default.
constexpr size_t kMaxPageBytes = 2 << 20;

absl::StatusOr<int> PageSize(int asked) {
  if (asked < 0 || asked > kMaxPage) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size: must be 0 to ", kMaxPage));
  }
  return asked == 0 ? kDefaultPage : asked;
}

const char* WordFor(PathKind kind) {
  switch (kind) {
    case PathKind::kFile:
      return "file";
    case PathKind::kFolder:
      return "folder";
    case PathKind::kFileOrFolder:
      return "file or folder";
    case PathKind::kFiles:
      return "files";
  }
  return "";
}

// A token says after which key to go on, in which list.
std::string Token(const std::string& list, const std::string& last) {
  return absl::WebSafeBase64Escape(
      absl::StrCat(Sha256Hex(list).substr(0, 16), last));
}

absl::StatusOr<std::string> ParseToken(const std::string& list,
                                       const std::string& token) {
  std::string text;
  if (token.size() > 1000 || !absl::WebSafeBase64Unescape(token, &text) ||
      text.size() < 16) {
    return absl::InvalidArgumentError("page_token: not one of this server's");
  }
  if (text.substr(0, 16) != Sha256Hex(list).substr(0, 16)) {
    return absl::InvalidArgumentError("page_token: belongs to another list");
  }
  return text.substr(16);
}

std::string ListKey(const v1::ListDatasetsRequest& request) {
  std::map<std::string, std::string> labels(request.labels().begin(),
                                            request.labels().end());
  std::string key = "datasets";
  for (const auto& [name, value] : labels) {
    absl::StrAppend(&key, "\n", name.size(), ":", name, "=", value);
  }
  return key;
}

bool HasLabels(const v1::Dataset& dataset,
               const v1::ListDatasetsRequest& request) {
  return std::all_of(
      request.labels().begin(), request.labels().end(), [&](const auto& label) {
        const auto it = dataset.labels().find(label.first);
        return it != dataset.labels().end() && it->second == label.second;
      });
}

}  // namespace

void DatasetCatalog::Get(std::string name, Callback<v1::Dataset> done) {
  host_->loop().Post([this, name = std::move(name), done = std::move(done)] {
    const auto version = FindVersion(name);
    if (!version.ok()) return done(version.status());
    v1::Dataset dataset =
        records_.at(ParseDatasetReference(name)->dataset).dataset();
    done(std::move(dataset));
  });
}

void DatasetCatalog::List(v1::ListDatasetsRequest request,
                          Callback<v1::ListDatasetsResponse> done) {
  host_->loop().Post(
      [this, request = std::move(request), done = std::move(done)] {
        const auto size = PageSize(request.page_size());
        if (!size.ok()) return done(size.status());
        const std::string list = ListKey(request);
        auto it = records_.begin();
        if (!request.page_token().empty()) {
          const auto last = ParseToken(list, request.page_token());
          if (!last.ok()) return done(last.status());
          it = records_.upper_bound(*last);
        }
        v1::ListDatasetsResponse response;
        std::string last;
        size_t bytes = 0;
        for (; it != records_.end(); ++it) {
          const v1::Dataset& dataset = it->second.dataset();
          if (!HasLabels(dataset, request)) continue;
          if (response.datasets_size() == *size || bytes > kMaxPageBytes) {
            response.set_next_page_token(Token(list, last));
            break;
          }
          last = it->first;
          bytes += dataset.ByteSizeLong();
          *response.add_datasets() = dataset;
        }
        done(std::move(response));
      });
}

void DatasetCatalog::ListFiles(v1::ListDatasetFilesRequest request,
                               Callback<v1::ListDatasetFilesResponse> done) {
  const auto page = [request](const v1::DatasetVersion& version,
                              const v1::DatasetManifest& manifest)
      -> absl::StatusOr<v1::ListDatasetFilesResponse> {
    ASSIGN_OR_RETURN(const int size, PageSize(request.page_size()));
    std::string last;
    if (!request.page_token().empty()) {
      ASSIGN_OR_RETURN(last,
                       ParseToken(version.digest(), request.page_token()));
    }
    v1::ListDatasetFilesResponse response;
    response.set_version(version.name());
    auto it = std::upper_bound(
        manifest.files().begin(), manifest.files().end(), last,
        [](const std::string& a, const auto& b) { return a < b.path(); });
    for (; it != manifest.files().end(); ++it) {
      if (response.files_size() == size) {
        response.set_next_page_token(Token(version.digest(), last));
        break;
      }
      last = it->path();
      *response.add_files() = *it;
    }
    return response;
  };
  OpenVersion(request.name(), [this, page, done = std::move(done)](
                                  absl::StatusOr<v1::DatasetVersion> version,
                                  const ManifestPtr& manifest) {
    auto response = version.ok() ? page(*version, *manifest) : version.status();
    host_->loop().Post(
        [response = std::move(response), done] { done(response); });
  });
}

void DatasetCatalog::Pin(const v1::JobSpec& spec,
                         Callback<PinnedDatasets> done) {
  if (closing_) return done(absl::UnavailableError("stopping"));
  struct Wanted {
    std::string field;
    DatasetReference reference;
    PathKind kind;
    v1::DatasetVersion version;
  };
  v1::JobSpec copy = spec;
  std::vector<Wanted> wanted;
  std::vector<FieldViolation> violations;
  PinnedDatasets pinned;
  std::set<std::string> references;
  for (const DataPath& path : DataPaths(&copy)) {
    const auto reference = ParseDatasetReference(*path.path);
    if (!reference) continue;
    const std::string part = DatasetPart(*reference);
    const auto version = FindVersion(part);
    if (!version.ok()) {
      violations.push_back(
          {path.field, std::string(version.status().message())});
      continue;
    }
    wanted.push_back({path.field, *reference, path.kind, *version});
    if (!references.insert(part).second) continue;
    v1::DatasetPin& pin = pinned.pins.emplace_back();
    pin.set_reference(part);
    pin.set_version(version->name());
    pin.set_digest(version->digest());
  }
  if (!violations.empty()) return done(InvalidSpec(violations));
  {
    const std::lock_guard<std::mutex> lock(holds_->mutex);
    for (const v1::DatasetPin& pin : pinned.pins) {
      holds_->versions.insert(pin.version());
    }
  }
  pinned.hold = std::shared_ptr<void>(
      nullptr, [holds = holds_, pins = pinned.pins](void*) {
        const std::lock_guard<std::mutex> lock(holds->mutex);
        for (const v1::DatasetPin& pin : pins) {
          holds->versions.erase(holds->versions.find(pin.version()));
        }
      });
  Begin();
  io_->Post([this, wanted, pinned, done = std::move(done)] {
    absl::Status status;
    std::vector<FieldViolation> violations;
    for (const Wanted& one : wanted) {
      const auto manifest = ReadManifest(one.version.digest());
      if (!manifest.ok()) {
        status = manifest.status();
        break;
      }
      const std::string& path = one.reference.path;
      if (HasPath(**manifest, path, one.kind)) continue;
      violations.push_back(
          {one.field, absl::StrCat(one.version.name(), " has no ",
                                   WordFor(one.kind), " ", path)});
    }
    if (status.ok() && !violations.empty()) status = InvalidSpec(violations);
    host_->loop().Post([this, status, pinned, done] {
      if (status.ok()) {
        done(pinned);
      } else {
        done(status);
      }
      End();
    });
  });
}

}  // namespace comera::server
