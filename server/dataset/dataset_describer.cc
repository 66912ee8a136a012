// Serves descriptions of datasets' files, computed once and kept on disk.
#include "server/dataset/dataset_describer.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/log.h"
#include "server/host/commit.h"

namespace comera::server {
namespace {

// The version of what is computed. Kept descriptions of other versions are
// computed anew.
constexpr int kVersion = 1;
constexpr int kMaxEndings = 50;
constexpr int64_t kMaxKeptColumn = 255;

std::string EndingOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string name =
      slash == std::string::npos ? path : path.substr(slash + 1);
  const size_t dot = name.rfind('.');
  return dot == std::string::npos || dot == 0 ? "" : name.substr(dot);
}

void AddEndings(const v1::DatasetManifest& manifest,
                v1::DatasetDescription* description) {
  std::map<std::string, v1::EndingDescription> endings;
  for (const v1::DatasetFile& file : manifest.files()) {
    const std::string name = EndingOf(file.path());
    v1::EndingDescription& ending = endings[name];
    ending.set_ending(name);
    ending.set_files(ending.files() + 1);
    ending.set_size_bytes(ending.size_bytes() + file.size_bytes());
  }
  std::vector<v1::EndingDescription> sorted;
  for (auto& [name, ending] : endings) sorted.push_back(std::move(ending));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) {
                     return a.size_bytes() > b.size_bytes();
                   });
  for (size_t i = 0; i < sorted.size() && i < kMaxEndings; ++i) {
    *description->add_endings() = std::move(sorted[i]);
  }
}

}  // namespace

DatasetDescriber::DatasetDescriber(const Options& options,
                                   const std::string& data_dir,
                                   DatasetCatalog* catalog)
    : options_(options),
      folder_(absl::StrCat(data_dir, "/descriptions")),
      catalog_(catalog),
      thread_(std::make_unique<EventLoop>()) {}

absl::Status DatasetDescriber::Begin(const std::string& user) {
  const std::lock_guard<std::mutex> lock(mutex_);
  int& own = pending_of_[user];
  if (!user.empty() && own >= options_.max_pending_of_user) {
    return absl::UnavailableError(absl::StrCat(
        "your last ", own,
        " descriptions are under way: try again when one is done"));
  }
  if (pending_ >= options_.max_pending) {
    if (own == 0) pending_of_.erase(user);
    return absl::UnavailableError(
        "many datasets are being described: try again in some seconds");
  }
  ++own;
  ++pending_;
  return absl::OkStatus();
}

void DatasetDescriber::End(const std::string& user) {
  const std::lock_guard<std::mutex> lock(mutex_);
  --pending_;
  const auto own = pending_of_.find(user);
  if (--own->second == 0) pending_of_.erase(own);
}

void DatasetDescriber::Describe(v1::DescribeDatasetRequest request,
                                std::string user, Done done) {
  const std::string name = request.name();
  catalog_->OpenVersion(
      name, [this, request = std::move(request), user = std::move(user),
             done = std::move(done)](
                const absl::StatusOr<v1::DatasetVersion>& version,
                const std::shared_ptr<const v1::DatasetManifest>& manifest) {
        if (!version.ok()) return done(version.status());
        v1::DatasetDescription description;
        description.set_version(version->name());
        std::vector<File> files;
        for (const v1::DatasetFile& file : manifest->files()) {
          if (request.path().empty()
                  ? static_cast<int>(files.size()) < options_.files
                  : file.path() == request.path()) {
            files.push_back({file, catalog_->blobs().Path(file.sha256())});
          }
        }
        if (files.empty()) {
          return done(absl::NotFoundError(
              absl::StrCat(version->name(), " has no file ", request.path())));
        }
        AddEndings(*manifest, &description);
        if (absl::Status status = Begin(user); !status.ok()) {
          return done(status);
        }
        thread_->Post(
            [this, request, user, description, files, done]() mutable {
              for (const File& file : files) {
                if (stopping_) break;
                *description.add_files() = DescribeOne(request, file);
              }
              End(user);
              if (stopping_) {
                return done(StoppingError());
              }
              done(std::move(description));
            });
      });
}

v1::FileDescription DatasetDescriber::DescribeOne(
    const v1::DescribeDatasetRequest& request, const File& file) const {
  const std::string column =
      request.has_label_column() ? absl::StrCat(request.label_column()) : "d";
  // The format is guessed by the name too.
  const std::string folder = absl::StrCat(folder_, "/", file.file.sha256());
  const std::string kept = absl::StrCat(
      folder, "/",
      Sha256Hex(absl::StrCat(kVersion, "/", column, "/", file.file.path()))
          .substr(0, 16));
  v1::FileDescription description;
  const auto bytes = ReadFile(kept);
  if (!bytes.ok() || !description.ParseFromString(*bytes)) {
    std::optional<int64_t> label_column;
    if (request.has_label_column()) label_column = request.label_column();
    description = DescribeFile(file.blob, file.file.path(), label_column,
                               options_.limits);
    // Only so many columns, and so many files, are asked for in earnest.
    const bool keep = std::abs(label_column.value_or(0)) <= kMaxKeptColumn;
    absl::Status stored = keep ? MakeDirectories(folder) : absl::OkStatus();
    if (stored.ok() && keep) {
      stored = WriteFileAtomically(kept, description.SerializeAsString());
    }
    LOG_IF(WARNING, !stored.ok())
        << "event=description_not_kept status=\"" << stored << "\"";
  }
  description.set_size_bytes(file.file.size_bytes());
  return description;
}

}  // namespace comera::server
