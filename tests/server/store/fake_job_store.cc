// A job store in memory for tests.
#include "tests/server/store/fake_job_store.h"

#include <algorithm>
#include <filesystem>

#include "server/store/event_retention.h"
#include "server/store/sqlite_job_store.h"
#include "server/store/store_copy.h"

namespace comera::server {

absl::StatusOr<std::vector<JobRecord>> FakeJobStore::LoadJobs() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<JobRecord> records;
  for (const auto& [name, record] : records_) records.push_back(record);
  std::sort(records.begin(), records.end(),
            [](const JobRecord& a, const JobRecord& b) {
              return a.serial() < b.serial();
            });
  return records;
}

absl::Status FakeJobStore::Commit(const StoreBatch& batch) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  std::map<std::string, JobRecord> records = records_;
  for (const JobRecord& record : batch.records) {
    for (const auto& [name, other] : records) {
      if (name == record.job().name()) continue;
      const bool same_request =
          !record.job().request_id().empty() &&
          record.job().request_id() == other.job().request_id();
      if (same_request || other.serial() == record.serial()) {
        return absl::InvalidArgumentError("constraint");
      }
    }
    records[record.job().name()] = record;
  }
  ++commits_;
  records_ = std::move(records);
  for (const v1::JobEvent& event : batch.events) {
    events_[event.job()].emplace(event.sequence(), event);
    if (IsSample(event)) Thin(event.job(), SampleSeries(event));
  }
  for (const Document& document : batch.documents) {
    const auto key = std::make_pair(document.kind, document.name);
    if (document.body) {
      documents_[key] = *document.body;
    } else {
      documents_.erase(key);
    }
  }
  for (AuditRow row : batch.audit) {
    row.id = static_cast<int64_t>(audit_.size()) + 1;
    audit_.push_back(std::move(row));
  }
  for (const std::string& name : batch.deleted_jobs) {
    records_.erase(name);
    events_.erase(name);
  }
  return absl::OkStatus();
}

void FakeJobStore::Thin(const std::string& job, int series) {
  std::vector<int64_t> sequences;
  for (const auto& [sequence, event] : events_[job]) {
    if (SampleSeries(event) == series) sequences.push_back(sequence);
  }
  if (static_cast<int>(sequences.size()) <= max_samples_) return;
  for (int64_t sequence : ThinSeries(sequences, max_samples_ / 2))
    events_[job].erase(sequence);
}

absl::StatusOr<std::vector<v1::JobEvent>> FakeJobStore::ReadEvents(
    const std::string& job, int64_t after, int64_t last, int limit) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<v1::JobEvent> result;
  auto it = events_.find(job);
  if (it == events_.end()) return result;
  for (auto event = it->second.upper_bound(after);
       event != it->second.end() && event->first <= last &&
       static_cast<int>(result.size()) < limit;
       ++event) {
    result.push_back(event->second);
  }
  return result;
}

absl::StatusOr<std::vector<Document>> FakeJobStore::LoadDocuments(
    const std::string& kind) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Document> documents;
  for (const auto& [key, body] : documents_) {
    if (kind.empty() || key.first == kind) {
      documents.push_back({key.first, key.second, body});
    }
  }
  return documents;
}

absl::StatusOr<std::vector<AuditRow>> FakeJobStore::ReadAudit(int64_t before,
                                                              int limit) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<AuditRow> rows;
  for (auto row = audit_.rbegin();
       row != audit_.rend() && static_cast<int>(rows.size()) < limit; ++row) {
    if (before == 0 || row->id < before) rows.push_back(*row);
  }
  return rows;
}

absl::Status FakeJobStore::Backup(const std::string& path) {
  if (std::filesystem::exists(path)) {
    return absl::AlreadyExistsError(path);
  }
  auto copy = SqliteJobStore::Open(path, {});
  if (!copy.ok()) return copy.status();
  return CopyStore(this, copy->get());
}

void FakeJobStore::FailCommits(absl::Status status) {
  std::lock_guard<std::mutex> lock(mutex_);
  failure_ = std::move(status);
}

int FakeJobStore::commits() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return commits_;
}

}  // namespace comera::server
