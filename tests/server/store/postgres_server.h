#ifndef COMERA_TESTS_SERVER_STORE_POSTGRES_SERVER_H_
#define COMERA_TESTS_SERVER_STORE_POSTGRES_SERVER_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace comera::server {

// A real PostgreSQL of this test's own: a new cluster in a temporary folder,
// reached through a socket file there, without passwords and without fsync.
// Stopped and removed by the destructor.
class PostgresServer {
 public:
  // NotFound: PostgreSQL is not installed. Takes about two seconds.
  static absl::StatusOr<std::unique_ptr<PostgresServer>> Start();
  // One for all tests of a program; null where PostgreSQL is not installed
  // (says so) or does not start (a test failure).
  static PostgresServer* Shared();
  ~PostgresServer();

  // Makes a new database and returns its URL.
  std::string NewDatabase();
  std::string Url(const std::string& database) const;
  // Ends and starts the server as a crash would; blocks until it is back.
  absl::Status Crash();
  // Ends all sessions of coordinators, as a broken network would.
  void DropSessions();

 private:
  PostgresServer() = default;
  absl::Status Run();
  absl::Status WaitUntilReady();

  std::string binaries_;
  std::string folder_;
  pid_t pid_ = -1;
  int databases_ = 0;
};

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_STORE_POSTGRES_SERVER_H_
