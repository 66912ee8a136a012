// How versions of datasets, and blobs that nothing needs, go.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "proto/dataset_names.h"
#include "proto/job_state.h"
#include "server/dataset/dataset_catalog.h"
#include "server/rpc/rpc_errors.h"

namespace comera::server {

absl::Status DatasetCatalog::CheckUnused(const std::string& version) const {
  const auto used = [&](const std::string& by) {
    return absl::FailedPreconditionError(
        absl::StrCat(version, " is needed by ", by));
  };
  {
    const std::lock_guard<std::mutex> lock(holds_->mutex);
    if (holds_->versions.count(version) > 0) {
      return used("a job that is being submitted");
    }
  }
  std::string user;
  host_->directory().ForEach([&](const v1::Job& job) {
    if (!user.empty() || IsFinal(job.state())) return;
    for (const v1::DatasetPin& pin : job.datasets()) {
      if (pin.version() == version) user = job.name();
    }
  });
  for (const UserFinder& finder : finders_) {
    if (user.empty()) user = finder(version);
  }
  return user.empty() ? absl::OkStatus() : used(user);
}

void DatasetCatalog::Delete(std::string name,
                            std::shared_ptr<const Caller> caller,
                            Callback<int64_t> done) {
  Mutate([this, name = std::move(name), caller = std::move(caller),
          done = std::move(done)](const Finished& finished) {
    const auto end = [done, finished](absl::StatusOr<int64_t> freed) {
      done(freed);
      finished();
    };
    if (closing_) return end(absl::UnavailableError("stopping"));
    DeleteVersions(name, *caller, end);
  });
}

void DatasetCatalog::DeleteVersions(const std::string& name,
                                    const Caller& caller,
                                    Callback<int64_t> done) {
  const absl::StatusOr<v1::DatasetVersion> version = FindVersion(name);
  if (!version.ok()) return done(version.status());
  const auto reference = ParseDatasetReference(name);
  const std::string id = reference->dataset;
  DatasetRecord record = records_.at(id);
  absl::Status status = caller.CheckOwner(record.dataset().user(), "");
  if (!status.ok()) return done(status);
  auto& versions = *record.mutable_dataset()->mutable_versions();
  std::vector<std::string> names, digests;
  for (int i = versions.size() - 1; i >= 0; --i) {
    if (reference->version != 0 && versions[i].number() != reference->version) {
      continue;
    }
    if (status = CheckUnused(versions[i].name()); !status.ok()) {
      return done(status);
    }
    names.push_back(versions[i].name());
    digests.push_back(versions[i].digest());
    record.mutable_list_bytes()->erase(versions[i].number());
    versions.DeleteSubrange(i, 1);
  }
  // Not to be pinned any more while the deletion is made durable.
  deleting_.insert(names.begin(), names.end());
  const bool all = versions.empty();
  Commit(id, all ? nullptr : &record,
         [this, id, record, all, names, digests,
          done](const absl::Status& status) {
           for (const std::string& name : names) deleting_.erase(name);
           if (!status.ok()) return done(status);
           if (all) {
             records_.erase(id);
           } else {
             records_[id] = record;
           }
           io_->Post([this, names, digests, remaining = Digests(), done] {
             const int64_t freed = RemoveBlobs(digests, remaining);
             LOG(INFO) << "dataset=" << names.front() << " event=deleted"
                       << " versions=" << names.size()
                       << " freed_bytes=" << freed;
             host_->loop().Post([freed, done] { done(freed); });
           });
         });
}

std::vector<std::string> DatasetCatalog::Digests() const {
  std::vector<std::string> digests;
  for (const auto& [id, record] : records_) {
    for (const v1::DatasetVersion& version : record.dataset().versions()) {
      digests.push_back(version.digest());
    }
  }
  return digests;
}

absl::StatusOr<std::set<std::string>> DatasetCatalog::BlobsOf(
    const std::vector<std::string>& digests) {
  std::set<std::string> blobs;
  for (const std::string& digest : digests) {
    if (!blobs.insert(digest).second) continue;
    ASSIGN_OR_RETURN(const ManifestPtr manifest, ReadManifest(digest));
    for (const v1::DatasetFile& file : manifest->files()) {
      blobs.insert(file.sha256());
    }
  }
  return blobs;
}

int64_t DatasetCatalog::RemoveBlobs(const std::vector<std::string>& deleted,
                                    const std::vector<std::string>& remaining) {
  const auto used = BlobsOf(remaining);
  const auto unused = BlobsOf(deleted);
  // What cannot be told from used blobs stays.
  if (!used.ok() || !unused.ok()) {
    LOG(ERROR) << "event=blobs_not_removed status=\""
               << (used.ok() ? unused.status() : used.status()) << "\"";
    return 0;
  }
  int64_t freed = 0;
  for (const std::string& sha256 : *unused) {
    if (used->count(sha256) == 0) freed += blobs_->Remove(sha256);
  }
  return freed;
}

void DatasetCatalog::Sweep(std::function<void(int64_t)> done) {
  Mutate([this, done = std::move(done)](const Finished& finished) {
    const absl::Time before = clock_->Now() - options_.keep_unused;
    io_->Post([this, digests = Digests(), before, done, finished] {
      int64_t freed = 0;
      const auto used = BlobsOf(digests);
      if (used.ok()) {
        freed = blobs_->RemoveUnused(*used, before);
      } else {
        LOG(ERROR) << "event=blobs_not_swept status=\"" << used.status()
                   << "\"";
      }
      LOG_IF(INFO, freed > 0) << "event=blobs_swept freed_bytes=" << freed;
      host_->loop().Post([done, finished, freed] {
        done(freed);
        finished();
      });
    });
  });
}

void DatasetCatalog::MaybeSweep() {
  const absl::Time now = clock_->Now();
  if (now < next_sweep_) return;
  next_sweep_ = now + options_.sweep_interval;
  Sweep([](int64_t) {});
}

}  // namespace comera::server
