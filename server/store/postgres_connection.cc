// Connects to PostgreSQL and turns libpqxx's exceptions into statuses.
#include "server/store/postgres_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/steady_time.h"

namespace comera::server {
namespace {

#if PQXX_VERSION_MAJOR < 7
constexpr pqxx::readwrite_policy kReadOnly = pqxx::read_only;
#else
constexpr pqxx::write_policy kReadOnly = pqxx::write_policy::read_only;
#endif

constexpr char kPasswordHint[] =
    "store: a password in the URL can be read by every user of this machine "
    "(ps); write it into a file of mode 0600 and name that file in the "
    "environment variable PGPASSFILE, or add ?passfile=FILE to the URL";

// What the server gets to end a statement by itself, before its socket is shut
// down.
constexpr absl::Duration kServerFirst = absl::Seconds(1);
// A transaction whose client sends nothing for so long holds its locks no more:
// a coordinator that was stopped amid a commit must not block its successor.
constexpr absl::Duration kIdleTransaction = absl::Seconds(3);

// The message of an exception on one line.
std::string OneLine(absl::string_view what) {
  std::string line;
  for (absl::string_view part : absl::StrSplit(what, '\n', absl::SkipEmpty())) {
    absl::StrAppend(&line, line.empty() ? "" : "; ", part);
  }
  return line;
}

absl::Status FromSqlError(const pqxx::sql_error& error) {
  const std::string state = error.sqlstate();
  const std::string message =
      absl::StrCat("PostgreSQL: ", OneLine(error.what()),
                   state.empty() ? "" : absl::StrCat(" (", state, ")"));
  // Class 23: integrity constraints; 53100: disk full, while other shortages
  // are not waited for; XX001, XX002: corruption.
  if (absl::StartsWith(state, "23")) return absl::InvalidArgumentError(message);
  if (state == "53100") return absl::ResourceExhaustedError(message);
  if (state == "XX001" || state == "XX002") return absl::DataLossError(message);
  return absl::UnavailableError(message);
}

}  // namespace

absl::Status CheckPostgresUrl(const std::string& url) {
  absl::string_view rest = url;
  if (!absl::ConsumePrefix(&rest, "postgres://") &&
      !absl::ConsumePrefix(&rest, "postgresql://")) {
    return absl::InvalidArgumentError(
        "store: must be sqlite or postgres://[user@]host[:port]/database");
  }
  const absl::string_view authority = rest.substr(0, rest.find_first_of("/?"));
  const size_t at = authority.rfind('@');
  if (at != absl::string_view::npos &&
      absl::StrContains(authority.substr(0, at), ":")) {
    return absl::InvalidArgumentError(kPasswordHint);
  }
  const size_t question = rest.find('?');
  if (question != absl::string_view::npos) {
    for (absl::string_view option :
         absl::StrSplit(rest.substr(question + 1), '&')) {
      const std::pair<absl::string_view, absl::string_view> pair =
          absl::StrSplit(option, absl::MaxSplits('=', 1));
      // libpq decodes %xx in names too: nothing may hide there.
      if (absl::StrContains(pair.first, "%") || pair.first == "password" ||
          pair.first == "sslpassword") {
        return absl::InvalidArgumentError(kPasswordHint);
      }
    }
  }
  return absl::OkStatus();
}

bool PostgresUrlIsExposed(const std::string& url) {
  const std::string rest(absl::StripPrefix(
      absl::StripPrefix(url, "postgresql://"), "postgres://"));
  std::string host = rest.substr(0, rest.find_first_of("/?"));
  host = host.substr(host.rfind('@') + 1);
  const char* const environment = std::getenv("PGSSLMODE");
  std::string mode = environment != nullptr ? environment : "";
  const size_t question = rest.find('?');
  if (question != std::string::npos) {
    for (absl::string_view option :
         absl::StrSplit(absl::string_view(rest).substr(question + 1), '&')) {
      if (absl::ConsumePrefix(&option, "sslmode=")) mode = std::string(option);
      if (absl::ConsumePrefix(&option, "host=")) host = std::string(option);
    }
  }
  // Socket files begin with a slash, which is encoded in a URL's host.
  for (const char* local : {"/", "%2F", "%2f", "localhost", "127.", "[::1]"}) {
    if (absl::StartsWith(host, local)) return false;
  }
  return !host.empty() && host[0] != ':' && mode != "verify-full";
}

// Declared for the time in which the socket may be waited for.
class PostgresConnection::SocketDeadline {
 public:
  SocketDeadline(PostgresConnection* owner, absl::Duration timeout)
      : owner_(owner) {
    const std::lock_guard<std::mutex> lock(owner_->mutex_);
    owner_->due_ = SteadyNow() + timeout + kServerFirst;
  }
  ~SocketDeadline() {
    const std::lock_guard<std::mutex> lock(owner_->mutex_);
    owner_->socket_ = -1;
  }
  void Watch(int socket) {
    const std::lock_guard<std::mutex> lock(owner_->mutex_);
    owner_->socket_ = socket;
  }

 private:
  PostgresConnection* const owner_;
};

void PostgresConnection::Connect(SocketDeadline* deadline) {
  if (connection_ != nullptr) return deadline->Watch(connection_->sock());
  const absl::string_view separator = absl::StrContains(url_, "?") ? "&" : "?";
  connection_ = std::make_unique<pqxx::connection>(absl::StrCat(
      url_, separator, "application_name=", options_.application,
      "&connect_timeout=", options_.connect_timeout_s,
      "&tcp_user_timeout=", options_.tcp_timeout_ms,
      "&keepalives_idle=1&keepalives_interval=1&keepalives_count=2"));
  deadline->Watch(connection_->sock());
#if PQXX_VERSION_MAJOR < 7
  // A transaction must not lose its beginning unseen: libpqxx 6 reconnects by
  // itself unless told not to, 7 never does.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  connection_->inhibit_reactivation(true);
#pragma GCC diagnostic pop
#endif
  // What a vanished coordinator held is free again within seconds. Zero is
  // what the first settings are on a socket file.
  pqxx::nontransaction setup(*connection_);
  setup.exec(absl::StrCat(
      "SET tcp_keepalives_idle = 2; SET tcp_keepalives_interval = 1; "
      "SET tcp_keepalives_count = 3; SET tcp_user_timeout = 5000; "
      "SET client_min_messages = warning; "
      "SET idle_in_transaction_session_timeout = ",
      absl::ToInt64Milliseconds(kIdleTransaction), "; SET statement_timeout = ",
      absl::ToInt64Milliseconds(options_.timeout)));
}

void PostgresConnection::ShutDownWhenDue() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (socket_ < 0 || SteadyNow() < due_) return;
  // Whoever waits for the socket finds it closed.
  shutdown(socket_, SHUT_RDWR);
  socket_ = -1;
}

absl::Status PostgresConnection::Guard(
    absl::Duration timeout, const std::function<absl::Status()>& body) {
  if (watch_ == nullptr) {
    EventLoop::Options options;
    options.tick_interval =
        std::clamp(options_.timeout / 8, absl::Milliseconds(50),
                   absl::Duration(absl::Seconds(1)));
    options.on_tick = [this] { ShutDownWhenDue(); };
    watch_ = std::make_unique<EventLoop>(std::move(options));
  }
  try {
    SocketDeadline deadline(this, timeout);
    Connect(&deadline);
    return body();
  } catch (const pqxx::broken_connection& error) {
    connection_.reset();
    return absl::UnavailableError(
        absl::StrCat("PostgreSQL: ", OneLine(error.what())));
  } catch (const pqxx::in_doubt_error& error) {
    connection_.reset();
    return absl::UnavailableError(
        absl::StrCat("PostgreSQL: a commit whose outcome is unknown: ",
                     OneLine(error.what())));
  } catch (const pqxx::sql_error& error) {
    // Also how libpqxx tells of a connection that broke inside a statement.
    const absl::Status status = FromSqlError(error);
    if (connection_ != nullptr && !connection_->is_open()) connection_.reset();
    return status;
  } catch (const std::exception& error) {
    connection_.reset();
    return absl::UnavailableError(
        absl::StrCat("PostgreSQL: ", OneLine(error.what())));
  }
}

void PostgresConnection::AllowTime(absl::Duration timeout,
                                   pqxx::transaction_base& transaction) {
  if (timeout == options_.timeout) return;
  const int64_t milliseconds = absl::ToInt64Milliseconds(timeout);
  transaction.exec(
      absl::StrCat("SET LOCAL statement_timeout = ", milliseconds));
  transaction.exec(absl::StrCat(
      "SET LOCAL idle_in_transaction_session_timeout = ", milliseconds));
}

absl::Status PostgresConnection::Transact(
    absl::Duration timeout,
    const std::function<absl::Status(pqxx::work&)>& use) {
  return Guard(timeout, [&] {
    pqxx::work transaction(*connection_);
    AllowTime(timeout, transaction);
    absl::Status status = use(transaction);
    if (status.ok()) transaction.commit();
    return status;
  });
}

absl::Status PostgresConnection::Read(
    absl::Duration timeout,
    const std::function<absl::Status(pqxx::transaction_base&)>& use) {
  return Guard(timeout, [&] {
    pqxx::transaction<pqxx::isolation_level::repeatable_read, kReadOnly>
        transaction(*connection_);
    AllowTime(timeout, transaction);
    return use(transaction);
  });
}

}  // namespace comera::server
