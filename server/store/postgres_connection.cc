// Connects to PostgreSQL and turns libpqxx's exceptions into statuses.
#include "server/store/postgres_connection.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

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
  // Class 23: integrity constraints; 53: resources; XX001, XX002: corruption.
  if (absl::StartsWith(state, "23")) return absl::InvalidArgumentError(message);
  if (absl::StartsWith(state, "53")) {
    return absl::ResourceExhaustedError(message);
  }
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

void PostgresConnection::Connect() {
  if (connection_ != nullptr) return;
  const absl::string_view separator = absl::StrContains(url_, "?") ? "&" : "?";
  connection_ = std::make_unique<pqxx::connection>(absl::StrCat(
      url_, separator, "application_name=", options_.application,
      "&connect_timeout=", options_.connect_timeout_s,
      "&tcp_user_timeout=", options_.tcp_timeout_ms,
      "&keepalives_idle=1&keepalives_interval=1&keepalives_count=2"));
#if PQXX_VERSION_MAJOR < 7
  // A session's locks must not vanish unseen: libpqxx 6 reconnects by itself
  // unless told not to, 7 never does.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  connection_->inhibit_reactivation(true);
#pragma GCC diagnostic pop
#endif
  // What a vanished coordinator held is free again within seconds. Zero is
  // what the settings are on a socket file.
  pqxx::nontransaction setup(*connection_);
  setup.exec("SET tcp_keepalives_idle = 2");
  setup.exec("SET tcp_keepalives_interval = 1");
  setup.exec("SET tcp_keepalives_count = 3");
  setup.exec("SET tcp_user_timeout = 5000");
  setup.exec("SET client_min_messages = warning");
}

absl::Status PostgresConnection::Guard(
    const std::function<absl::Status()>& body) {
  try {
    Connect();
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

absl::Status PostgresConnection::Transact(
    const std::function<absl::Status(pqxx::work&)>& use) {
  return Guard([&] {
    pqxx::work transaction(*connection_);
    absl::Status status = use(transaction);
    if (status.ok()) transaction.commit();
    return status;
  });
}

absl::Status PostgresConnection::Read(
    const std::function<absl::Status(pqxx::transaction_base&)>& use) {
  return Guard([&] {
    pqxx::transaction<pqxx::isolation_level::repeatable_read, kReadOnly>
        transaction(*connection_);
    return use(transaction);
  });
}

absl::Status PostgresConnection::Run(
    const std::function<absl::Status(pqxx::nontransaction&)>& use) {
  return Guard([&] {
    pqxx::nontransaction transaction(*connection_);
    return use(transaction);
  });
}

}  // namespace comera::server
