// Copies one store into another, batch by batch.
#include "server/store/store_copy.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/status_macros.h"

namespace comera::server {
namespace {

// How many records one commit holds.
constexpr size_t kRecords = 500;
constexpr int kEvents = 2000;
constexpr int kAudit = 5000;

using Committer = std::function<absl::Status(const StoreBatch&)>;

absl::Status CopyEvents(const std::string& job, StoreReader* from,
                        const Committer& commit) {
  int64_t after = 0;
  while (true) {
    StoreBatch batch;
    ASSIGN_OR_RETURN(
        batch.events,
        from->ReadEvents(job, after, std::numeric_limits<int64_t>::max(),
                         kEvents));
    if (batch.events.empty()) return absl::OkStatus();
    after = batch.events.back().sequence();
    RETURN_IF_ERROR(commit(batch));
  }
}

absl::Status CopyAudit(StoreReader* from, const Committer& commit) {
  // Read newest first, written oldest first.
  std::vector<AuditRow> all;
  int64_t before = 0;
  while (true) {
    ASSIGN_OR_RETURN(std::vector<AuditRow> page,
                     from->ReadAudit(before, kAudit));
    if (page.empty()) break;
    before = page.back().id;
    std::move(page.begin(), page.end(), std::back_inserter(all));
    // Ids start from 1, and 0 would ask for all.
    if (before <= 1) break;
  }
  std::reverse(all.begin(), all.end());
  StoreBatch batch;
  batch.audit = std::move(all);
  return commit(batch);
}

}  // namespace

absl::Status CopyStore(StoreReader* from, const Committer& commit) {
  ASSIGN_OR_RETURN(std::vector<JobRecord> records, from->LoadJobs());
  std::vector<std::string> names;
  for (size_t begin = 0; begin < records.size(); begin += kRecords) {
    StoreBatch batch;
    const size_t end = std::min(records.size(), begin + kRecords);
    for (size_t i = begin; i < end; ++i) {
      names.push_back(records[i].job().name());
      batch.records.push_back(std::move(records[i]));
    }
    RETURN_IF_ERROR(commit(batch));
  }
  for (const std::string& name : names) {
    RETURN_IF_ERROR(CopyEvents(name, from, commit));
  }
  StoreBatch batch;
  ASSIGN_OR_RETURN(batch.documents, from->LoadDocuments(""));
  RETURN_IF_ERROR(commit(batch));
  return CopyAudit(from, commit);
}

absl::Status CopyStore(StoreReader* from, JobStore* to) {
  return CopyStore(from,
                   [to](const StoreBatch& batch) { return to->Commit(batch); });
}

}  // namespace comera::server
