// A connection to PostgreSQL whose errors are Statuses.
#ifndef COMERA_SERVER_STORE_POSTGRES_CONNECTION_H_
#define COMERA_SERVER_STORE_POSTGRES_CONNECTION_H_

#include <functional>
#include <memory>
#include <mutex>
#include <pqxx/pqxx>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/runtime/event_loop.h"

namespace comera::server {

// InvalidArgument unless `url` is postgres://... or postgresql://... without a
// password: a command line can be read by every user of the machine.
absl::Status CheckPostgresUrl(const std::string& url);

// True where somebody between this machine and the database could read or
// change what is stored: the connection leaves the machine, and neither the URL
// nor PGSSLMODE demands that the server prove who it is (sslmode=verify-full).
bool PostgresUrlIsExposed(const std::string& url);

// One session, opened when first used and again after it broke. Not
// thread-safe.
//
// Every call ends within its timeout and some seconds, whatever the network and
// the server do: the server ends statements that take longer, and transactions
// whose client has fallen silent; where it does not answer at all, as behind a
// proxy that keeps the connection open, the socket is shut down here.
//
// libpqxx throws: whatever `use` throws comes back as a Status, and the
// transaction is rolled back. InvalidArgument: a constraint; DataLoss: damaged
// data; ResourceExhausted: the disk is full; Unavailable: everything else,
// with the server's words.
class PostgresConnection {
 public:
  struct Options {
    absl::string_view application = "comera-server";
    // A server that does not acknowledge for this long is gone.
    int tcp_timeout_ms = 3000;
    int connect_timeout_s = 3;
    // A transaction's, unless its call says another one.
    absl::Duration timeout = absl::Seconds(10);
  };
  // The timeout of work that has no usual length: migrations, copies of all
  // that is stored.
  static constexpr absl::Duration kLong = absl::Hours(1);

  PostgresConnection(std::string url, const Options& options)
      : url_(std::move(url)), options_(options) {}

  // Runs `use` in one transaction and commits it if `use` returned OK.
  absl::Status Transact(const std::function<absl::Status(pqxx::work&)>& use) {
    return Transact(options_.timeout, use);
  }
  absl::Status Transact(absl::Duration timeout,
                        const std::function<absl::Status(pqxx::work&)>& use);
  // The same, reading one consistent state.
  absl::Status Read(
      const std::function<absl::Status(pqxx::transaction_base&)>& use) {
    return Read(options_.timeout, use);
  }
  absl::Status Read(
      absl::Duration timeout,
      const std::function<absl::Status(pqxx::transaction_base&)>& use);

 private:
  // A socket is shut down once its time is over.
  class SocketDeadline;

  absl::Status Guard(absl::Duration timeout,
                     const std::function<absl::Status()>& body);
  void Connect(SocketDeadline* deadline);
  void ShutDownWhenDue();
  // Lets a transaction's statements take as long as its call may.
  void AllowTime(absl::Duration timeout, pqxx::transaction_base& transaction);

  const std::string url_;
  const Options options_;
  std::unique_ptr<pqxx::connection> connection_;

  std::mutex mutex_;
  // The socket of the call that is under way; -1: none is.
  int socket_ ABSL_GUARDED_BY(mutex_) = -1;
  absl::Time due_ ABSL_GUARDED_BY(mutex_);
  // Looks at the time now and then; runs from the first call on.
  std::unique_ptr<EventLoop> watch_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_STORE_POSTGRES_CONNECTION_H_
