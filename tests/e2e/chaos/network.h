#ifndef COMERA_TESTS_E2E_CHAOS_NETWORK_H_
#define COMERA_TESTS_E2E_CHAOS_NETWORK_H_

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace comera::e2e {

// The loopback network of this process and its children, in a namespace of its
// own, which loses packets on demand. Everything that is called has an address
// of its own, so that its connections can be cut. Not thread-safe.
class ChaosNetwork {
 public:
  // Moves the calling process into the namespace; call it before threads start.
  // NotFound: a program is missing. Unavailable: not root, or the kernel or
  // nftables lacks a feature.
  // `log_path` receives the output of commands.
  static absl::StatusOr<std::unique_ptr<ChaosNetwork>> Enter(
      const std::string& log_path);

  // Where the worker calls the coordinators.
  static std::string AddressFor(int worker);
  // Where other workers' members call those of the worker, and its daemon.
  static std::string PeerAddress(int worker);
  // Where the coordinator calls the database.
  static std::string DatabaseAddress(int coordinator);

  enum class Direction { kToAddress, kFromAddress, kBoth };
  // Drops the packets to the address, or those from there, from now on, without
  // any notice to either side.
  absl::Status Silence(const std::string& address, Direction direction);
  absl::Status Restore(const std::string& address);
  // Drops this share of all packets, in percent, which delays what TCP sends
  // and makes it arrive out of order.
  absl::Status Lose(int percent);

  // Whether the kernel can delay and reorder packets (tc netem).
  bool can_delay() const { return can_delay_; }
  // Delays every packet by this, more or less by half, and lets the share of
  // them, in percent, overtake the others. Zero: no more.
  absl::Status Delay(absl::Duration delay, int reorder_percent);

 private:
  explicit ChaosNetwork(std::string log_path)
      : log_path_(std::move(log_path)) {}

  // Replaces the rules in one transaction.
  absl::Status Apply() const;
  absl::Status Run(const std::vector<std::string>& argv) const;

  const std::string log_path_;
  std::set<std::string> rules_;
  int lost_percent_ = 0;
  bool can_delay_ = false;
};

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_NETWORK_H_
