// Loses packets of a network namespace by rules of nftables, and delays them by
// its queue.

#include "tests/e2e/chaos/network.h"

#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "tests/e2e/command.h"

namespace comera::e2e {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(30);

constexpr char kTc[] = "/usr/sbin/tc";

std::string RuleTo(const std::string& address) {
  return absl::StrCat("ip daddr ", address, " drop");
}

std::string RuleFrom(const std::string& address) {
  return absl::StrCat("ip saddr ", address, " drop");
}

}  // namespace

std::string ChaosNetwork::AddressFor(int worker) {
  return absl::StrCat("127.0.1.", worker + 1);
}

std::string ChaosNetwork::PeerAddress(int worker) {
  return absl::StrCat("127.0.2.", worker + 1);
}

std::string ChaosNetwork::DatabaseAddress(int coordinator) {
  return absl::StrCat("127.0.3.", coordinator + 1);
}

absl::StatusOr<std::unique_ptr<ChaosNetwork>> ChaosNetwork::Enter(
    const std::string& log_path) {
  if (geteuid() != 0) {
    return absl::UnavailableError("network namespaces need root");
  }
  for (const char* program : {"/usr/sbin/nft", "/usr/sbin/ip"}) {
    if (access(program, X_OK) != 0) {
      return absl::NotFoundError(absl::StrCat(program, " is missing"));
    }
  }
  if (unshare(CLONE_NEWNET) != 0) {
    return absl::UnavailableError(
        ErrnoStatus(errno, "make a network namespace").message());
  }
  std::unique_ptr<ChaosNetwork> network(new ChaosNetwork(log_path));
  RETURN_IF_ERROR(network->Run({"/usr/sbin/ip", "link", "set", "lo", "up"}));
  RETURN_IF_ERROR(network->Run(
      {"/usr/sbin/nft",
       "add table inet chaos; add chain inet chaos in { type filter hook input "
       "priority 0; }"}));
  network->can_delay_ = access(kTc, X_OK) == 0 &&
                        network->Delay(absl::Milliseconds(1), 1).ok() &&
                        network->Delay(absl::ZeroDuration(), 0).ok();
  return network;
}

absl::Status ChaosNetwork::Silence(const std::string& address,
                                   Direction direction) {
  if (direction != Direction::kFromAddress) rules_.insert(RuleTo(address));
  if (direction != Direction::kToAddress) rules_.insert(RuleFrom(address));
  return Apply();
}

absl::Status ChaosNetwork::Restore(const std::string& address) {
  rules_.erase(RuleTo(address));
  rules_.erase(RuleFrom(address));
  return Apply();
}

absl::Status ChaosNetwork::Delay(absl::Duration delay, int reorder_percent) {
  if (delay <= absl::ZeroDuration()) {
    return Run({kTc, "qdisc", "del", "dev", "lo", "root"});
  }
  const int64_t ms = absl::ToInt64Milliseconds(delay);
  return Run({kTc, "qdisc", "replace", "dev", "lo", "root", "netem", "delay",
              absl::StrCat(ms, "ms"), absl::StrCat(ms / 2, "ms"), "reorder",
              absl::StrCat(reorder_percent, "%")});
}

absl::Status ChaosNetwork::Lose(int percent) {
  lost_percent_ = percent;
  return Apply();
}

absl::Status ChaosNetwork::Apply() const {
  std::vector<std::string> commands = {"flush chain inet chaos in"};
  for (const std::string& rule : rules_) {
    commands.push_back("add rule inet chaos in " + rule);
  }
  if (lost_percent_ > 0) {
    commands.push_back(
        absl::StrCat("add rule inet chaos in numgen random mod 100 < ",
                     lost_percent_, " drop"));
  }
  return Run({"/usr/sbin/nft", absl::StrJoin(commands, "; ")});
}

absl::Status ChaosNetwork::Run(const std::vector<std::string>& argv) const {
  const CommandResult result = RunCommand(argv, log_path_, kLimit);
  if (result.exit_code == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(absl::StrJoin(argv, " "),
                                             " ended with ", result.exit_code,
                                             "; see ", log_path_));
}

}  // namespace comera::e2e
