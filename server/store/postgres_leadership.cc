// Elects a leader by an advisory lock of PostgreSQL.
#include "server/store/postgres_leadership.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "server/store/postgres_schema.h"

namespace comera::server {
namespace {

// Any number that no other program of the database uses: "comera-l".
constexpr int64_t kLeaderLock = 0x636f6d6572612d6c;

PostgresConnection::Options LockSession() {
  PostgresConnection::Options options;
  options.application = "comera-server-leader";
  return options;
}

}  // namespace

PostgresLeadership::PostgresLeadership(const std::string& url,
                                       std::string address)
    : connection_(url, LockSession()), address_(std::move(address)) {}

PostgresLeadership::~PostgresLeadership() = default;

absl::StatusOr<bool> PostgresLeadership::TryAcquire() {
  if (!migrated_) {
    RETURN_IF_ERROR(MigratePostgres(&connection_, NewestPostgresSchema()));
    migrated_ = true;
  }
  term_ = 0;
  RETURN_IF_ERROR(connection_.Run([&](pqxx::nontransaction& session) {
    const bool locked = session
                            .exec1(absl::StrCat("SELECT pg_try_advisory_lock(",
                                                kLeaderLock, ")"))[0]
                            .as<bool>();
    if (!locked) return absl::OkStatus();
    // Waits for the commit that the leader before may have under way.
    term_ = session
                .exec_params1(
                    "UPDATE coordinator SET epoch = epoch + 1, "
                    "change = change + 1, address = $1 RETURNING epoch",
                    address_)[0]
                .as<int64_t>();
    return absl::OkStatus();
  }));
  return term_ > 0;
}

absl::Status PostgresLeadership::Check() {
  if (term_ == 0) return absl::FailedPreconditionError("does not lead");
  if (!connection_.connected()) {
    return absl::UnavailableError("the session that holds the lock broke");
  }
  absl::StatusOr<Leader> leader = ReadLeader();
  RETURN_IF_ERROR(leader.status());
  if (leader->term != term_) {
    return absl::FailedPreconditionError(
        absl::StrCat("the coordinator at ", leader->address, " leads"));
  }
  return absl::OkStatus();
}

absl::StatusOr<PostgresLeadership::Leader> PostgresLeadership::ReadLeader() {
  Leader leader;
  RETURN_IF_ERROR(connection_.Run([&](pqxx::nontransaction& session) {
    const pqxx::row row =
        session.exec1("SELECT epoch, address FROM coordinator");
    leader.term = row[0].as<int64_t>();
    leader.address = row[1].as<std::string>();
    return absl::OkStatus();
  }));
  return leader;
}

}  // namespace comera::server
