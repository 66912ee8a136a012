#ifndef COMERA_TESTS_E2E_VIRTUAL_NETWORK_H_
#define COMERA_TESTS_E2E_VIRTUAL_NETWORK_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::e2e {

// Machines on a switch: network namespaces joined by a bridge in one more
// namespace. It is invisible outside and disappears with the object; the
// processes in it must have ended by then. Machine i (from 0) has the address
// 10.77.0.<i+1>.
class VirtualNetwork {
 public:
  // Unavailable: this process is not root, or the kernel or iproute2 lacks a
  // feature. `log_path` receives the output of commands.
  static absl::StatusOr<std::unique_ptr<VirtualNetwork>> Create(
      int machines, const std::string& log_path);
  ~VirtualNetwork();
  VirtualNetwork(const VirtualNetwork&) = delete;
  VirtualNetwork& operator=(const VirtualNetwork&) = delete;

  static std::string Address(int machine);
  // The command that runs `argv` on the machine; the process keeps its pid.
  std::vector<std::string> On(int machine, std::vector<std::string> argv) const;
  // The pids of all processes on the machine.
  std::vector<pid_t> Pids(int machine) const;

  // Drops every packet to and from the machine from now on, without any notice
  // to either side.
  absl::Status Cut(int machine);
  absl::Status Mend(int machine);
  // Limits the rate at which the machine sends and receives, with delay if the
  // kernel supports it. Unavailable: this kernel cannot.
  absl::Status Slow(int machine, const std::string& rate);
  // Gives the machine this address in place of its old one.
  absl::Status MoveTo(int machine, const std::string& address);

 private:
  explicit VirtualNetwork(std::string log_path);

  absl::Status Ip(std::vector<std::string> arguments) const;
  absl::Status SetUp(int machines);
  std::string Name(int machine) const;
  std::string Switch() const;

  const std::string log_path_, prefix_;
  std::string ip_, tc_;
  int machines_ = 0;
};

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_VIRTUAL_NETWORK_H_
