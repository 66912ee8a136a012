// Starts a private PostgreSQL server for tests.
#include "tests/server/store/postgres_server.h"

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <pqxx/pqxx>
#include <sstream>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/status_macros.h"
#include "gtest/gtest.h"

#ifdef __SANITIZE_ADDRESS__
// libpqxx 6.4 loses the result in which it finds out that a connection is gone.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:libpqxx\n";
}
#endif

namespace comera::server {
namespace {

// The newest installed version's programs; empty: none.
std::string FindBinaries() {
  std::string best;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator("/usr/lib/postgresql", ignored)) {
    const std::string path = entry.path().string() + "/bin";
    if (access((path + "/initdb").c_str(), X_OK) == 0 && path > best) {
      best = path;
    }
  }
  return best;
}

// PostgreSQL refuses to run as root: its package's user, else nobody.
const passwd* Unprivileged() {
  if (geteuid() != 0) return nullptr;
  const passwd* user = getpwnam("postgres");
  return user != nullptr ? user : getpwnam("nobody");
}

// Starts `arguments` with all output going to `log`.
pid_t Spawn(const std::vector<std::string>& arguments, const std::string& log) {
  const passwd* user = Unprivileged();
  const uid_t uid = user ? user->pw_uid : geteuid();
  const gid_t gid = user ? user->pw_gid : getegid();
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  dup2(out, 1);
  dup2(out, 2);
  const bool changed =
      uid == geteuid() || (setgid(gid) == 0 && setuid(uid) == 0);
  // Goes with the test, however that ends.
  prctl(PR_SET_PDEATHSIG, SIGQUIT);
  if (!changed || getppid() != parent) _exit(126);
  char* environment[] = {const_cast<char*>("PATH=/usr/bin:/bin"),
                         const_cast<char*>("LC_ALL=C.UTF-8"), nullptr};
  execve(argv[0], argv.data(), environment);
  _exit(127);
}

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PostgresServer>> PostgresServer::Start(
    bool tcp) {
  std::unique_ptr<PostgresServer> server(new PostgresServer);
  server->tcp_ = tcp;
  server->binaries_ = FindBinaries();
  if (server->binaries_.empty()) {
    return absl::NotFoundError("PostgreSQL is not installed");
  }
  // Short, because a socket's path may have 107 bytes only; not below the
  // test's own folder, which the other user may not enter.
  server->folder_ = "/tmp/comera_pg_XXXXXX";
  if (mkdtemp(server->folder_.data()) == nullptr) {
    return absl::UnavailableError("mkdtemp");
  }
  if (const passwd* user = Unprivileged()) {
    if (chown(server->folder_.c_str(), user->pw_uid, user->pw_gid) != 0) {
      return absl::UnavailableError("chown");
    }
  }
  const pid_t init =
      Spawn({server->binaries_ + "/initdb", "-D", server->folder_ + "/data",
             "-U", "comera", "--auth=trust", "--no-sync", "--encoding=UTF8",
             "--locale=C.UTF-8", "--no-instructions"},
            server->folder_ + "/log");
  int status = 0;
  waitpid(init, &status, 0);
  if (status != 0) {
    return absl::UnavailableError(
        absl::StrCat("initdb: ", Contents(server->folder_ + "/log")));
  }
  RETURN_IF_ERROR(server->Run());
  return server;
}

absl::Status PostgresServer::Run() {
  pid_ = Spawn(
      {binaries_ + "/postgres", "-D", folder_ + "/data", "-k", folder_, "-c",
       tcp_ ? "listen_addresses=0.0.0.0" : "listen_addresses=", "-c",
       "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_connections=30"},
      folder_ + "/log");
  return WaitUntilReady();
}

absl::Status PostgresServer::WaitUntilReady() {
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (true) {
    try {
      pqxx::connection connection(Url("postgres"));
      return absl::OkStatus();
    } catch (const std::exception& error) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_ || absl::Now() > deadline) {
        return absl::UnavailableError(
            absl::StrCat("postgres: ", Contents(folder_ + "/log")));
      }
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
}

PostgresServer* PostgresServer::Shared() {
  static auto* server = new absl::StatusOr<std::unique_ptr<PostgresServer>>(
      PostgresServer::Start());
  if (server->ok()) {
    // Static objects are never destroyed here: the folder goes at exit.
    static const int registered = atexit([] { server->value().reset(); });
    static_cast<void>(registered);
    return server->value().get();
  }
  if (!absl::IsNotFound(server->status())) ADD_FAILURE() << server->status();
  return nullptr;
}

PostgresServer::~PostgresServer() {
  if (pid_ > 0) {
    kill(pid_, SIGQUIT);
    waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

absl::Status PostgresServer::Crash() {
  kill(pid_, SIGQUIT);
  waitpid(pid_, nullptr, 0);
  return Run();
}

std::string PostgresServer::Url(const std::string& database) const {
  std::string host;
  for (char c : folder_) host += c == '/' ? "%2F" : std::string(1, c);
  return absl::StrCat("postgres://comera@", host, "/", database);
}

std::string PostgresServer::Url(const std::string& database,
                                const std::string& address) {
  return absl::StrCat("postgres://comera@", address, "/", database);
}

std::string PostgresServer::MakeDatabase() {
  const std::string name = absl::StrCat("test", ++databases_);
  pqxx::connection connection(Url("postgres"));
  pqxx::nontransaction(connection).exec("CREATE DATABASE " + name);
  return name;
}

std::string PostgresServer::NewDatabase() { return Url(MakeDatabase()); }

absl::StatusOr<std::string> PostgresServer::ReadOne(
    const std::string& database, const std::string& query) const {
  try {
    pqxx::connection connection(Url(database));
    return pqxx::nontransaction(connection).exec1(query)[0].as<std::string>();
  } catch (const std::exception& error) {
    return absl::UnavailableError(error.what());
  }
}

void PostgresServer::DropSessions() {
  pqxx::connection connection(Url("postgres"));
  pqxx::nontransaction(connection)
      .exec(
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
          "application_name LIKE 'comera-server%'");
}

}  // namespace comera::server
