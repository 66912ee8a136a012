// Keeps the lease of the leading coordinator in a row of PostgreSQL.
#include "server/store/postgres_leadership.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/store/postgres_schema.h"

namespace comera::server {
namespace {

// The session lock by which earlier versions lead: "comera-l".
constexpr int64_t kFormerLock = 0x636f6d6572612d6c;

PostgresConnection::Options LeaseSession(absl::Duration timeout) {
  PostgresConnection::Options options;
  options.application = "comera-server-leader";
  options.timeout = timeout;
  return options;
}

// Two tries to renew fit into a lease.
absl::Duration Timeout(absl::Duration length) {
  return std::max(absl::Milliseconds(300), length * 0.3);
}

}  // namespace

PostgresLease::PostgresLease(const std::string& url, absl::Duration timeout)
    : connection_(url, LeaseSession(timeout)) {}

absl::StatusOr<LeaseRow> PostgresLease::Read() {
  if (!migrated_) {
    RETURN_IF_ERROR(MigratePostgres(&connection_, NewestPostgresSchema()));
    migrated_ = true;
  }
  LeaseRow row;
  RETURN_IF_ERROR(connection_.Read([&](pqxx::transaction_base& read) {
    const pqxx::row found = read.exec1(
        // The secret of an earlier leadership is none of this leader's.
        "SELECT coordinator.epoch, address, "
        "CASE WHEN lease.epoch = coordinator.epoch THEN secret ELSE '' END, "
        "renewals, seconds, "
        "expires <= clock_timestamp() FROM coordinator, lease");
    row.term = found[0].as<int64_t>();
    row.address = found[1].as<std::string>();
    row.secret = found[2].as<std::string>();
    row.renewals = found[3].as<int64_t>();
    row.length = absl::Seconds(found[4].as<double>());
    row.expired = found[5].as<bool>();
    return absl::OkStatus();
  }));
  return row;
}

absl::StatusOr<int64_t> PostgresLease::Take(const LeaseRow& row,
                                            const std::string& address,
                                            const std::string& secret,
                                            absl::Duration length,
                                            bool although_unexpired) {
  int64_t term = 0;
  RETURN_IF_ERROR(connection_.Transact([&](pqxx::work& work) {
    const bool no_former_leader = work.exec1(absl::StrCat(
        "SELECT pg_try_advisory_xact_lock(", kFormerLock, ")"))[0]
                                      .as<bool>();
    if (!no_former_leader) return absl::OkStatus();
    const pqxx::result taken = work.exec_params(
        "UPDATE lease SET renewals = renewals + 1, secret = $1, seconds = $2, "
        "expires = clock_timestamp() + make_interval(secs => $2) "
        "WHERE renewals = $3 AND (expires <= clock_timestamp() OR $4) "
        "RETURNING renewals",
        secret, absl::ToDoubleSeconds(length), row.renewals,
        although_unexpired);
    if (taken.empty()) return absl::OkStatus();
    // Waits for the commit that the leader before may have under way. Terms
    // rise from one database to the next, too, since workers remember them:
    // they begin with the time.
    term = work.exec_params1(
                   "UPDATE coordinator SET change = change + 1, address = $1, "
                   "epoch = greatest(epoch + 1, "
                   "floor(extract(epoch FROM clock_timestamp()))::bigint) "
                   "RETURNING epoch",
                   address)[0]
               .as<int64_t>();
    work.exec_params0("UPDATE lease SET epoch = $1", term);
    return absl::OkStatus();
  }));
  return term;
}

absl::StatusOr<bool> PostgresLease::Renew(int64_t term, absl::Duration length) {
  bool renewed = false;
  // The lease's own epoch decides: after a wait for the row the database looks
  // at its new contents, but not at other tables again. Those tell of leaders
  // of earlier versions, which have no lease.
  RETURN_IF_ERROR(connection_.Transact([&](pqxx::work& work) {
    renewed = !work.exec_params(
                       "UPDATE lease SET renewals = renewals + 1, "
                       "seconds = $2, expires = clock_timestamp() + "
                       "make_interval(secs => $2) WHERE epoch = $1 AND "
                       "(SELECT epoch FROM coordinator) = $1 "
                       "RETURNING renewals",
                       term, absl::ToDoubleSeconds(length))
                   .empty();
    return absl::OkStatus();
  }));
  return renewed;
}

absl::Status PostgresLease::GiveBack(int64_t term) {
  return connection_.Transact([&](pqxx::work& work) {
    work.exec_params0(
        "UPDATE lease SET renewals = renewals + 1, expires = '-infinity' "
        "WHERE epoch = $1",
        term);
    return absl::OkStatus();
  });
}

PostgresLeadership::PostgresLeadership(const std::string& url,
                                       const std::string& address,
                                       const Options& options)
    : LeaderLease(std::make_unique<PostgresLease>(url, Timeout(options.length)),
                  address, options) {}

}  // namespace comera::server
