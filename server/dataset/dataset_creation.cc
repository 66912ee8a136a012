// How versions of datasets come to be.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "proto/dataset_names.h"
#include "server/dataset/dataset_catalog.h"
#include "server/rpc/proto_time.h"
#include "server/rpc/user_quota.h"

namespace comera::server {
namespace {

constexpr int kMaxLabels = 64;

// Whether this changed any.
bool MergeLabels(const v1::CreateDatasetRequest& request, v1::Dataset* to) {
  bool changed = false;
  auto& labels = *to->mutable_labels();
  for (const auto& [key, value] : request.labels()) {
    const auto known = labels.find(key);
    if (value.empty()) {
      if (known == labels.end()) continue;
      labels.erase(known);
    } else {
      if (known != labels.end() && known->second == value) continue;
      labels[key] = value;
    }
    changed = true;
  }
  return changed;
}

}  // namespace

absl::Status DatasetCatalog::CheckCreate(
    const v1::CreateDatasetRequest& request, const Caller& caller) const {
  const auto found = records_.find(request.dataset_id());
  if (found == records_.end()) {
    if (records_.size() >= static_cast<size_t>(options_.max_datasets)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("there are ", records_.size(),
                       " datasets, the most that are possible: delete some"));
    }
    const int64_t limit = host_->QuotaOf(caller.user()).datasets;
    const int64_t datasets = UseOf(caller.user()).datasets;
    if (limit <= 0 || datasets < limit) return absl::OkStatus();
    return OverQuota(caller.user(), datasets, "datasets", limit,
                     "user_datasets", "delete some");
  }
  v1::Dataset dataset = found->second.dataset();
  RETURN_IF_ERROR(caller.CheckOwner(dataset.user(), ""));
  MergeLabels(request, &dataset);
  if (dataset.labels_size() > kMaxLabels) {
    return absl::InvalidArgumentError(
        absl::StrCat("labels: at most ", kMaxLabels, " are possible"));
  }
  if (dataset.versions_size() >= options_.max_versions) {
    return absl::ResourceExhaustedError(
        absl::StrCat(dataset.name(), " has ", dataset.versions_size(),
                     " versions, the most that are possible: delete some"));
  }
  return absl::OkStatus();
}

void DatasetCatalog::Create(const v1::CreateDatasetRequest* request,
                            std::shared_ptr<const Caller> caller,
                            Callback<v1::Dataset> done) {
  Mutate([this, request, caller = std::move(caller),
          done = std::move(done)](const Finished& finished) {
    const auto end = [done, finished](absl::StatusOr<v1::Dataset> dataset) {
      done(std::move(dataset));
      finished();
    };
    if (closing_) return end(absl::UnavailableError("stopping"));
    if (absl::Status status = CheckWritable(); !status.ok()) return end(status);
    if (absl::Status status = CheckCreate(*request, *caller); !status.ok()) {
      return end(status);
    }
    io_->Post([this, request, user = caller->user(), end] {
      auto list = CheckList(*request);
      host_->loop().Post([this, request, user, end, list = std::move(list)] {
        if (!list.ok()) return end(list.status());
        AddVersion(*request, user, *list,
                   [this, end, list](absl::StatusOr<v1::Dataset> dataset) {
                     if (dataset.ok()) {
                       io_->Post([this, list] {
                         for (const std::string& sha256 : (*list)->blobs) {
                           blobs_->Claim(sha256);
                         }
                       });
                     }
                     end(std::move(dataset));
                   });
      });
    });
    MaybeSweep();
  });
}

DatasetCatalog::Use DatasetCatalog::UseOf(const std::string& user) const {
  Use use;
  for (const auto& [id, record] : records_) {
    if (record.dataset().user() != user) continue;
    ++use.datasets;
    for (const v1::DatasetVersion& version : record.dataset().versions()) {
      use.bytes += version.size_bytes();
    }
    for (const auto& [number, bytes] : record.list_bytes()) use.bytes += bytes;
  }
  return use;
}

void DatasetCatalog::FindSender(std::string user,
                                std::function<void(BlobSender)> done) {
  host_->loop().Post([this, user = std::move(user), done = std::move(done)] {
    BlobSender sender;
    sender.user = user;
    sender.max_bytes = host_->QuotaOf(user).dataset_bytes;
    sender.used_bytes = sender.max_bytes > 0 ? UseOf(user).bytes : 0;
    io_->Post([sender, done] { done(sender); });
  });
}

absl::StatusOr<DatasetCatalog::CheckedListPtr> DatasetCatalog::CheckList(
    const v1::CreateDatasetRequest& request) {
  ASSIGN_OR_RETURN(const v1::DatasetManifest manifest,
                   MakeManifest(request.files(), options_.limits));
  int64_t missing = 0;
  const v1::DatasetFile* first = nullptr;
  for (const v1::DatasetFile& file : manifest.files()) {
    const auto size = blobs_->Size(file.sha256());
    if (size.ok() && *size != file.size_bytes()) {
      return absl::InvalidArgumentError(
          absl::StrCat("files: ", file.path(), " has ", *size, " bytes, not ",
                       file.size_bytes()));
    }
    if (size.ok()) continue;
    if (missing++ == 0) first = &file;
  }
  if (missing > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the contents of ", missing, " of ", manifest.files_size(),
                     " files are missing, first ", first->path(), " (",
                     first->sha256(), "): upload them, then repeat"));
  }
  auto list = std::make_shared<CheckedList>();
  list->stored = manifest.SerializeAsString();
  for (const v1::DatasetFile& file : manifest.files()) {
    list->blobs.push_back(file.sha256());
  }
  list->version.set_digest(Sha256Hex(list->stored));
  list->version.set_file_count(manifest.files_size());
  list->version.set_size_bytes(TotalBytes(manifest));
  return list;
}

void DatasetCatalog::AddVersion(const v1::CreateDatasetRequest& request,
                                const std::string& user, CheckedListPtr list,
                                Callback<v1::Dataset> done) {
  const std::string& id = request.dataset_id();
  const auto found = records_.find(id);
  DatasetRecord record;
  if (found != records_.end()) record = found->second;
  // Only now: the assignment may replace the message inside.
  v1::Dataset& dataset = *record.mutable_dataset();
  if (found == records_.end()) {
    dataset.set_name(DatasetName(id));
    dataset.set_user(user);
    *dataset.mutable_create_time() = ToTimestamp(clock_->Now());
    record.set_next_number(1);
  }
  const bool relabelled = MergeLabels(request, &dataset);
  const int count = dataset.versions_size();
  if (count > 0 &&
      dataset.versions(count - 1).digest() == list->version.digest()) {
    if (!relabelled) return done(dataset);
    return CommitVersion(id, record, std::move(done));
  }
  const std::string& owner = dataset.user();
  const int64_t limit = host_->QuotaOf(owner).dataset_bytes;
  const int64_t used = UseOf(owner).bytes;
  const auto list_bytes = static_cast<int64_t>(list->stored.size());
  if (limit > 0 && list->version.size_bytes() + list_bytes > limit - used) {
    return done(OverQuota(owner, used, "bytes of datasets", limit,
                          "user_dataset_bytes",
                          "delete versions that nothing needs"));
  }
  const int64_t number = record.next_number();
  v1::DatasetVersion* added = dataset.add_versions();
  *added = list->version;
  added->set_number(number);
  added->set_name(DatasetVersionName(id, number));
  added->set_user(user);
  *added->mutable_create_time() = ToTimestamp(clock_->Now());
  (*record.mutable_list_bytes())[number] = list_bytes;
  record.set_next_number(number + 1);
  io_->Post([this, id, record, list = std::move(list), done = std::move(done)] {
    const absl::Status stored = blobs_->Put(list->stored).status();
    host_->loop().Post([this, id, record, stored, done] {
      if (!stored.ok()) return done(stored);
      CommitVersion(id, record, done);
    });
  });
}

void DatasetCatalog::CommitVersion(const std::string& id,
                                   const DatasetRecord& record,
                                   Callback<v1::Dataset> done) {
  Commit(id, &record, [this, id, record, done](const absl::Status& status) {
    if (!status.ok()) return done(status);
    const v1::Dataset& dataset = record.dataset();
    LOG(INFO) << "dataset=" << dataset.name()
              << " versions=" << dataset.versions_size() << " newest="
              << dataset.versions(dataset.versions_size() - 1).number();
    records_[id] = record;
    done(dataset);
  });
}

}  // namespace comera::server
