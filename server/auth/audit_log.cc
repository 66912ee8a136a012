// Writes and lists the entries of the audit log.
#include "server/auth/audit_log.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

constexpr int kDefaultPage = 50;
constexpr int kMaxPage = 1000;
// Looked at for one page, in portions between which the store does other work.
constexpr int kMaxScanned = 10000;
constexpr int kPortion = 1000;

bool Below(const std::string& resource, const std::string& parent) {
  return resource == parent || absl::StartsWith(resource, parent + "/");
}

}  // namespace

struct AuditLog::Listing {
  v1::ListAuditEntriesRequest request;
  ListDone done;
  int page_size = 0;
  int64_t before = 0;
  int scanned = 0;
  v1::ListAuditEntriesResponse response;
};

AuditRow AuditLog::ToRow(const v1::AuditEntry& entry, absl::Time time) {
  AuditRow row;
  row.time = time;
  row.entry = entry.SerializeAsString();
  return row;
}

void AuditLog::Record(v1::AuditEntry entry, WriteDone done) {
  StoreBatch batch;
  batch.audit.push_back(ToRow(entry, clock_->Now()));
  write_(std::move(batch), std::move(done));
}

void AuditLog::RecordFailure(v1::AuditEntry entry) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Failures& failures =
        entry.user().empty()
            ? strangers_
            : failures_
                  .try_emplace(entry.user(), kFailuresPerSecond, kFailureBurst)
                  .first->second;
    if (failures.bucket.Take(clock_->Now()) > absl::ZeroDuration()) {
      ++failures.suppressed;
      return;
    }
    entry.set_suppressed(failures.suppressed);
    failures.suppressed = 0;
  }
  Record(std::move(entry), [](const absl::Status&) {});
}

void AuditLog::List(const v1::ListAuditEntriesRequest& request, ListDone done) {
  if (request.page_size() < 0 || request.page_size() > kMaxPage) {
    return done(absl::InvalidArgumentError(
        absl::StrCat("page_size: must be 0 to ", kMaxPage)));
  }
  auto listing = std::make_shared<Listing>();
  if (!request.page_token().empty() &&
      (!absl::SimpleAtoi(request.page_token(), &listing->before) ||
       listing->before < 1)) {
    return done(
        absl::InvalidArgumentError("page_token: not one of this server's"));
  }
  listing->request = request;
  listing->done = std::move(done);
  listing->page_size =
      request.page_size() == 0 ? kDefaultPage : request.page_size();
  Continue(std::move(listing));
}

void AuditLog::Continue(std::shared_ptr<Listing> listing) {
  read_([this, listing](JobStore* store) {
    const absl::StatusOr<std::vector<AuditRow>> rows =
        store->ReadAudit(listing->before, kPortion);
    if (!rows.ok()) return listing->done(rows.status());
    const v1::ListAuditEntriesRequest& request = listing->request;
    v1::ListAuditEntriesResponse& response = listing->response;
    const absl::Time since = request.has_since()
                                 ? FromTimestamp(request.since())
                                 : absl::InfinitePast();
    for (const AuditRow& row : *rows) {
      // Ids ascend with time but for a clock that was set back.
      if (row.time < since - absl::Hours(1)) return listing->done(response);
      if (response.entries_size() == listing->page_size) {
        response.set_next_page_token(absl::StrCat(listing->before));
        return listing->done(response);
      }
      listing->before = row.id;
      v1::AuditEntry entry;
      if (!entry.ParseFromString(row.entry)) {
        return listing->done(absl::DataLossError(
            absl::StrCat("audit entry ", row.id, " is damaged")));
      }
      if (row.time < since ||
          (!request.user().empty() && entry.user() != request.user()) ||
          (!request.resource().empty() &&
           !Below(entry.resource(), request.resource()))) {
        continue;
      }
      entry.set_id(row.id);
      *entry.mutable_time() = ToTimestamp(row.time);
      *response.add_entries() = std::move(entry);
    }
    if (static_cast<int>(rows->size()) < kPortion) {
      return listing->done(response);
    }
    listing->scanned += kPortion;
    if (listing->scanned >= kMaxScanned) {
      response.set_next_page_token(absl::StrCat(listing->before));
      return listing->done(response);
    }
    Continue(listing);
  });
}

}  // namespace comera::server
