// A connection to PostgreSQL whose errors are Statuses.
#ifndef COMERA_SERVER_STORE_POSTGRES_CONNECTION_H_
#define COMERA_SERVER_STORE_POSTGRES_CONNECTION_H_

#include <functional>
#include <memory>
#include <pqxx/pqxx>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::server {

// InvalidArgument unless `url` is postgres://... or postgresql://... without a
// password: a command line can be read by every user of the machine.
absl::Status CheckPostgresUrl(const std::string& url);

// One session, opened when first used and again after it broke. Not
// thread-safe.
//
// libpqxx throws: whatever `use` throws comes back as a Status, and the
// transaction is rolled back. InvalidArgument: a constraint; DataLoss: damaged
// data; ResourceExhausted: disk or memory full; Unavailable: everything else,
// with the server's words.
class PostgresConnection {
 public:
  struct Options {
    absl::string_view application = "comera-server";
    // A server that does not acknowledge for this long is gone.
    int tcp_timeout_ms = 3000;
    int connect_timeout_s = 3;
  };

  PostgresConnection(std::string url, const Options& options)
      : url_(std::move(url)), options_(options) {}

  // Runs `use` in one transaction and commits it if `use` returned OK.
  absl::Status Transact(const std::function<absl::Status(pqxx::work&)>& use);
  // The same, reading one consistent state.
  absl::Status Read(
      const std::function<absl::Status(pqxx::transaction_base&)>& use);
  // Without a transaction, e.g. for session locks.
  absl::Status Run(
      const std::function<absl::Status(pqxx::nontransaction&)>& use);

  // Whether the session of the last call still stands.
  bool connected() const { return connection_ != nullptr; }
  void Disconnect() { connection_.reset(); }

 private:
  absl::Status Guard(const std::function<absl::Status()>& body);
  void Connect();

  const std::string url_;
  const Options options_;
  std::unique_ptr<pqxx::connection> connection_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_STORE_POSTGRES_CONNECTION_H_
