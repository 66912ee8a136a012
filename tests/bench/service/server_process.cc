// Starts a server, reads /proc for its use of resources, and stops it.

#include "tests/bench/service/server_process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace comera::bench {
namespace {

constexpr absl::Duration kStartLimit = absl::Seconds(30);
constexpr absl::Duration kStopLimit = absl::Seconds(20);

bool Ended(pid_t pid) { return waitpid(pid, nullptr, WNOHANG) != 0; }

int64_t KilobytesOf(const std::string& status, const std::string& field) {
  const size_t at = status.find(field);
  if (at == std::string::npos) return 0;
  return strtoll(status.c_str() + at + field.size(), nullptr, 10) * 1024;
}

}  // namespace

absl::StatusOr<ProcessFigures> ReadFigures(pid_t pid) {
  std::ifstream status_file(absl::StrCat("/proc/", pid, "/status"));
  std::stringstream status;
  status << status_file.rdbuf();
  std::ifstream stat_file(absl::StrCat("/proc/", pid, "/stat"));
  std::string stat;
  std::getline(stat_file, stat);
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) {
    return absl::NotFoundError(absl::StrCat("process ", pid, " is gone"));
  }
  ProcessFigures figures;
  figures.resident_bytes = KilobytesOf(status.str(), "VmRSS:");
  figures.peak_resident_bytes = KilobytesOf(status.str(), "VmHWM:");
  // utime and stime are fields 14 and 15 of proc(5); the third follows the
  // name.
  std::istringstream rest(stat.substr(name_end + 1));
  std::string field;
  for (int i = 3; i < 14; ++i) rest >> field;
  double user = 0, system = 0;
  rest >> user >> system;
  figures.cpu_seconds =
      (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return figures;
}

absl::StatusOr<std::unique_ptr<ServerProcess>> ServerProcess::Start(
    const std::string& binary, const std::string& parent,
    const std::vector<std::string>& flags) {
  std::unique_ptr<ServerProcess> server(new ServerProcess);
  std::string pattern = parent + "/comera-load-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    return ErrnoStatus(errno, absl::StrCat("make a folder in ", parent));
  }
  server->binary_ = binary;
  server->folder_ = pattern;
  server->flags_ = flags;
  RETURN_IF_ERROR(server->Start());
  return server;
}

absl::Status ServerProcess::Start() {
  std::vector<std::string> arguments = {
      binary_,
      absl::StrCat("--listen=", address_.empty() ? "127.0.0.1:0" : address_),
      absl::StrCat("--data_dir=", folder_, "/data"),
      absl::StrCat("--port_file=", folder_, "/port")};
  arguments.insert(arguments.end(), flags_.begin(), flags_.end());
  unlink((folder_ + "/port").c_str());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const std::string log = folder_ + "/log";
  pid_ = fork();
  if (pid_ < 0) return ErrnoStatus(errno, "fork");
  if (pid_ == 0) {
    // Keeps the server from outliving a benchmark that is killed.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(argv[0], argv.data());
    perror(argv[0]);
    _exit(127);
  }
  return AwaitAddress();
}

void ServerProcess::Kill() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

absl::Status ServerProcess::AwaitAddress() {
  const absl::Time deadline = absl::Now() + kStartLimit;
  while (absl::Now() < deadline) {
    if (absl::StatusOr<std::string> port = ReadFile(folder_ + "/port");
        port.ok()) {
      address_ = *std::move(port);
      return absl::OkStatus();
    }
    if (Ended(pid_)) {
      pid_ = -1;
      break;
    }
    absl::SleepFor(absl::Milliseconds(10));
  }
  const absl::StatusOr<std::string> log = ReadFile(folder_ + "/log");
  return absl::UnavailableError(absl::StrCat("comera-server did not start: ",
                                             log.ok() ? *log : "no log"));
}

int64_t ServerProcess::StoreBytes() const {
  int64_t bytes = 0;
  for (const char* end : {"", "-wal"}) {
    std::error_code error;
    const auto size = std::filesystem::file_size(
        absl::StrCat(folder_, "/data/jobs.sqlite", end), error);
    if (!error) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

ServerProcess::~ServerProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGTERM);
    const absl::Time deadline = absl::Now() + kStopLimit;
    bool ended = false;
    while (!(ended = Ended(pid_)) && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(20));
    }
    if (!ended) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

}  // namespace comera::bench
