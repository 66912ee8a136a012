// Creates the store's tables in PostgreSQL and brings older ones up to date.
#include "server/store/postgres_schema.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace comera::server {
namespace {

// Step i leads from version i to i + 1. Released steps never change.
constexpr const char* kSteps[] = {
    // 1: jobs, events, documents, audit log; who leads. Every commit has a
    // number (coordinator.change), by which followers find what is new.
    R"sql(
      CREATE TABLE coordinator (
        only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
        epoch bigint NOT NULL,
        change bigint NOT NULL,
        address text NOT NULL
      );
      INSERT INTO coordinator (epoch, change, address) VALUES (0, 0, '');
      CREATE TABLE jobs (
        name text COLLATE "C" PRIMARY KEY,
        serial bigint NOT NULL UNIQUE,
        state integer NOT NULL,
        request_id text UNIQUE,
        change bigint NOT NULL,
        record bytea NOT NULL
      );
      CREATE INDEX jobs_change ON jobs (change);
      CREATE TABLE deleted_jobs (
        name text NOT NULL,
        change bigint NOT NULL
      );
      CREATE INDEX deleted_jobs_change ON deleted_jobs (change);
      CREATE TABLE events (
        job text COLLATE "C" NOT NULL,
        sequence bigint NOT NULL,
        series integer NOT NULL,
        event bytea NOT NULL,
        PRIMARY KEY (job, sequence)
      );
      CREATE INDEX samples ON events (job, series, sequence) WHERE series <> 0;
      CREATE TABLE documents (
        kind text COLLATE "C" NOT NULL,
        name bytea NOT NULL,
        body bytea NOT NULL,
        PRIMARY KEY (kind, name)
      );
      CREATE TABLE audit (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        time_micros bigint NOT NULL,
        entry bytea NOT NULL
      );
    )sql",
    // 2: the leader's lease, beside `coordinator`, whose row a commit holds.
    R"sql(
      CREATE TABLE lease (
        only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
        epoch bigint NOT NULL,
        renewals bigint NOT NULL,
        secret text NOT NULL,
        seconds double precision NOT NULL,
        expires timestamptz NOT NULL
      );
      INSERT INTO lease (epoch, renewals, secret, seconds, expires)
        VALUES (0, 0, '', 0, '-infinity');
    )sql",
};

// Any number that no other program of the database uses: "comera-m".
constexpr int64_t kMigrationLock = 0x636f6d6572612d6d;

}  // namespace

int NewestPostgresSchema() { return std::size(kSteps); }

absl::Status MigratePostgres(PostgresConnection* connection, int version) {
  bool done = false;
  while (!done) {
    RETURN_IF_ERROR(connection->Transact(
        PostgresConnection::kLong, [&](pqxx::work& work) -> absl::Status {
          work.exec(absl::StrCat("SELECT pg_advisory_xact_lock(",
                                 kMigrationLock, ")"));
          work.exec(
              "CREATE TABLE IF NOT EXISTS schema_version "
              "(version integer PRIMARY KEY)");
          const int current =
              work.exec1(
                      "SELECT coalesce(max(version), 0) FROM schema_version")[0]
                  .as<int>();
          if (current > NewestPostgresSchema()) {
            return absl::FailedPreconditionError(absl::StrCat(
                "the database has schema version ", current,
                ", this program knows versions up to ", NewestPostgresSchema(),
                ": start a newer comera-server"));
          }
          done = current >= version;
          if (done) return absl::OkStatus();
          work.exec(kSteps[current]);
          work.exec(absl::StrCat("INSERT INTO schema_version VALUES (",
                                 current + 1, ")"));
          return absl::OkStatus();
        }));
  }
  return absl::OkStatus();
}

}  // namespace comera::server
