// The tables of PostgresJobStore and how they came to be.
#ifndef COMERA_SERVER_STORE_POSTGRES_SCHEMA_H_
#define COMERA_SERVER_STORE_POSTGRES_SCHEMA_H_

#include "absl/status/status.h"
#include "server/store/postgres_connection.h"

namespace comera::server {

// The version that this program reads and writes.
int NewestPostgresSchema();

// Brings the database to `version`, each step in its own transaction; of
// several programs that do so at once, one goes first. FailedPrecondition: the
// database is newer than this program.
absl::Status MigratePostgres(PostgresConnection* connection, int version);

}  // namespace comera::server

#endif  // COMERA_SERVER_STORE_POSTGRES_SCHEMA_H_
