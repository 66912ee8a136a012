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
  // NotFound: PostgreSQL is not installed. Takes about two seconds. `tcp`: it
  // also listens at PostgreSQL's own port of all addresses, which needs a
  // network namespace of the test's own; it serves those from loopback.
  static absl::StatusOr<std::unique_ptr<PostgresServer>> Start(
      bool tcp = false);
  // One for all tests of a program; null where PostgreSQL is not installed
  // (says so) or does not start (a test failure).
  static PostgresServer* Shared();
  ~PostgresServer();

  // Makes a new database and returns its URL.
  std::string NewDatabase();
  // The same, and returns its name.
  std::string MakeDatabase();
  std::string Url(const std::string& database) const;
  // The URL by TCP.
  static std::string Url(const std::string& database,
                         const std::string& address);
  // The one value that the query gives. Unavailable: there is none.
  absl::StatusOr<std::string> ReadOne(const std::string& database,
                                      const std::string& query) const;
  // The process that starts those of the sessions.
  pid_t pid() const { return pid_; }
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
  bool tcp_ = false;
  int databases_ = 0;
};

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_STORE_POSTGRES_SERVER_H_
