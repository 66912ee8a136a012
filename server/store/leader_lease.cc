// Acquires, renews and gives up the lease of the leading coordinator.
#include "server/store/leader_lease.h"

#include <time.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "server/runtime/id_source.h"

namespace comera::server {
namespace {

// The part of a lease in which its holder no longer answers: for clocks that
// run at different rates, and for answers on their way.
constexpr double kUnusedPart = 0.2;

}  // namespace

absl::Time LeaderLease::BootTime() {
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return absl::TimeFromTimespec(now);
}

LeaderLease::LeaderLease(std::unique_ptr<LeaseStore> store, std::string address,
                         const Options& options)
    : address_(std::move(address)),
      options_(options),
      store_(std::move(store)) {}

LeaderLease::~LeaderLease() { GiveUp(); }

bool LeaderLease::Holds() const {
  return term_ > 0 && absl::ToUnixNanos(options_.now()) < end_;
}

std::string LeaderLease::secret() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return secret_;
}

LeaseRow LeaderLease::last_row() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return row_;
}

void LeaderLease::SetEnd(absl::Time sent) {
  end_ = absl::ToUnixNanos(sent + options_.length * (1 - kUnusedPart));
}

absl::StatusOr<bool> LeaderLease::TryAcquire() {
  const std::lock_guard<std::mutex> asking(store_mutex_);
  ASSIGN_OR_RETURN(const LeaseRow row, store_->Read());
  bool silent = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const absl::Time now = options_.now();
    if (unchanged_since_ == absl::InfiniteFuture() ||
        row.renewals != row_.renewals) {
      unchanged_since_ = now;
    }
    // Where the database's clock was set back, the lease would last for long.
    silent = now - unchanged_since_ > row.length;
    row_ = row;
  }
  if (!row.expired && !silent) return false;
  RandomIdSource ids;
  const std::string secret =
      absl::StrCat(ids.NewId(), ids.NewId(), ids.NewId());
  const absl::Time sent = options_.now();
  ASSIGN_OR_RETURN(const int64_t term, store_->Take(row, address_, secret,
                                                    options_.length, silent));
  if (term == 0) return false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    secret_ = secret;
  }
  SetEnd(sent);
  term_ = term;
  return true;
}

absl::Status LeaderLease::Renew() {
  const std::lock_guard<std::mutex> asking(store_mutex_);
  if (!Holds()) {
    return absl::FailedPreconditionError(
        "the leader's lease ended before it was renewed");
  }
  if (!beaten_.exchange(false)) return absl::OkStatus();
  const absl::Time sent = options_.now();
  const absl::StatusOr<bool> renewed = store_->Renew(term_, options_.length);
  if (!renewed.ok()) {
    // The loop turned, and the lease has not ended: the next call asks again.
    beaten_ = true;
    LOG(WARNING) << "event=lease_not_renewed term=" << term_ << " status=\""
                 << renewed.status() << "\"";
    return absl::OkStatus();
  }
  if (!*renewed) {
    end_ = 0;
    return absl::FailedPreconditionError("another coordinator leads");
  }
  SetEnd(sent);
  return absl::OkStatus();
}

void LeaderLease::GiveUp() {
  end_ = 0;
  const std::lock_guard<std::mutex> asking(store_mutex_);
  const int64_t term = term_.exchange(0);
  if (term == 0) return;
  const absl::Status given = store_->GiveBack(term);
  LOG_IF(WARNING, !given.ok())
      << "event=lease_not_given_back status=\"" << given << "\"";
}

}  // namespace comera::server
