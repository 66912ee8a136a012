// Agrees on the address at which the programs of a gang meet.
#include "worker/trainer/program/master_address.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status_macros.h"
#include "common/steady_time.h"
#include "worker/collective/rendezvous.h"

namespace comera::trainer {
namespace {

constexpr char kKey[] = "program-master";
// Data come to some machines long before they come to others.
constexpr absl::Duration kArrival = absl::Hours(12);
constexpr absl::Duration kStopInterval = absl::Milliseconds(200);

// A port that is free on all addresses, of both kinds where the machine has
// IPv6: PyTorch's store listens on all of them.
absl::StatusOr<int> FreePort() {
  int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool six = fd >= 0;
  if (!six) fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto closer = absl::MakeCleanup([&fd] {
    if (fd >= 0) close(fd);
  });
  sockaddr_storage address = {};
  socklen_t size = six ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  address.ss_family = six ? AF_INET6 : AF_INET;
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return absl::UnavailableError(
        absl::StrCat("no free port: ", strerror(errno)));
  }
  return ntohs(six ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

absl::StatusOr<std::string> OwnAddress(const TrainerTask& task) {
  ASSIGN_OR_RETURN(const int port, FreePort());
  if (task.host().empty()) return absl::StrCat("127.0.0.1:", port);
  return absl::StrContains(task.host(), ':')
             ? absl::StrCat("[", task.host(), "]:", port)
             : absl::StrCat(task.host(), ":", port);
}

}  // namespace

absl::StatusOr<std::string> MasterAddress(const TrainerTask& task,
                                          const std::atomic<bool>& stop) {
  if (task.world_size() == 1) return OwnAddress(task);
  ASSIGN_OR_RETURN(auto rendezvous,
                   collective::FileRendezvous::Open(task.rendezvous_dir()));
  if (task.rank() == 0) {
    ASSIGN_OR_RETURN(std::string address, OwnAddress(task));
    RETURN_IF_ERROR(rendezvous.Set(kKey, address));
    return address;
  }
  const absl::Time limit = SteadyNow() + kArrival;
  while (true) {
    absl::StatusOr<std::string> address = rendezvous.Get(kKey, kStopInterval);
    if (!absl::IsDeadlineExceeded(address.status()) || SteadyNow() >= limit) {
      return address;
    }
    if (stop.load()) {
      return absl::CancelledError("stopped while member 0 was awaited");
    }
  }
}

}  // namespace comera::trainer
