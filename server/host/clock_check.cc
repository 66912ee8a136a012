// Compares the clock with the newest time in the store.
#include "server/host/clock_check.h"

#include <algorithm>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

constexpr char kKind[] = "clock";
constexpr char kName[] = "newest";

absl::Time NewestTimeOf(const v1::Job& job) {
  absl::Time newest = FromTimestamp(job.create_time());
  if (job.has_start_time()) {
    newest = std::max(newest, FromTimestamp(job.start_time()));
  }
  if (job.has_end_time()) {
    newest = std::max(newest, FromTimestamp(job.end_time()));
  }
  for (const v1::Checkpoint& checkpoint : job.checkpoints()) {
    newest = std::max(newest, FromTimestamp(checkpoint.create_time()));
  }
  return newest;
}

}  // namespace

absl::StatusOr<absl::Time> NewestStoredTime(
    StoreReader* store, const std::vector<JobRecord>& records) {
  ASSIGN_OR_RETURN(const std::vector<Document> notes,
                   store->LoadDocuments(kKind));
  absl::Time newest = absl::InfinitePast();
  for (const Document& note : notes) {
    int64_t seconds = 0;
    if (note.name == kName && note.body &&
        absl::SimpleAtoi(*note.body, &seconds)) {
      newest = std::max(newest, absl::FromUnixSeconds(seconds));
    }
  }
  if (newest != absl::InfinitePast()) return newest;
  for (const JobRecord& record : records) {
    newest = std::max(newest, NewestTimeOf(record.job()));
  }
  return newest;
}

bool MayExpireBy(absl::Time now, absl::Time newest, absl::Time confirmed_day) {
  if (newest == absl::InfinitePast() || now - newest <= kMaxClockLead) {
    return true;
  }
  // A day more on either side, whatever the operator's time zone is.
  return now >= confirmed_day - absl::Hours(24) &&
         now < confirmed_day + absl::Hours(48);
}

ClockTrust::ClockTrust(absl::Time now, absl::Time newest,
                       absl::Time confirmed_day, absl::Time steady)
    : believed_(MayExpireBy(now, newest, confirmed_day)),
      newest_(newest),
      start_(steady) {}

absl::Duration ClockTrust::Lead(absl::Time now, absl::Time steady) {
  if (believed_) return absl::ZeroDuration();
  const absl::Duration lead = now - (newest_ + (steady - start_));
  believed_ = lead <= kMaxClockLead;
  return believed_ ? absl::ZeroDuration() : lead;
}

Document TimeNote(absl::Time now) {
  return {kKind, kName, absl::StrCat(absl::ToUnixSeconds(now))};
}

}  // namespace comera::server
