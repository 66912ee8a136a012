// Builds network namespaces, links and traffic limits with iproute2.

#include "tests/e2e/virtual_network.h"

#include <unistd.h>

#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/status_macros.h"
#include "tests/e2e/command.h"

namespace comera::e2e {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(30);

// The folders of administrators' programs are often not in a test's PATH.
std::string Find(const std::string& program) {
  for (const char* folder : {"/usr/sbin/", "/sbin/", "/usr/bin/", "/bin/"}) {
    if (access((folder + program).c_str(), X_OK) == 0) return folder + program;
  }
  return "";
}

std::string Port(int machine) { return absl::StrCat("port", machine); }

}  // namespace

VirtualNetwork::VirtualNetwork(std::string log_path)
    : log_path_(std::move(log_path)),
      prefix_(absl::StrCat("comera-", getpid(), "-")) {}

absl::StatusOr<std::unique_ptr<VirtualNetwork>> VirtualNetwork::Create(
    int machines, const std::string& log_path) {
  if (geteuid() != 0) {
    return absl::UnavailableError("network namespaces need root");
  }
  std::unique_ptr<VirtualNetwork> network(new VirtualNetwork(log_path));
  network->ip_ = Find("ip");
  network->tc_ = Find("tc");
  if (network->ip_.empty() || network->tc_.empty()) {
    return absl::UnavailableError("ip or tc is missing (iproute2)");
  }
  const absl::Status status = network->SetUp(machines);
  if (!status.ok()) return absl::UnavailableError(status.message());
  return network;
}

absl::Status VirtualNetwork::SetUp(int machines) {
  RETURN_IF_ERROR(Ip({"netns", "add", Switch()}));
  machines_ = machines;
  RETURN_IF_ERROR(
      Ip({"-n", Switch(), "link", "add", "switch", "type", "bridge"}));
  RETURN_IF_ERROR(Ip({"-n", Switch(), "link", "set", "switch", "up"}));
  for (int i = 0; i < machines; ++i) {
    RETURN_IF_ERROR(Ip({"netns", "add", Name(i)}));
    RETURN_IF_ERROR(Ip({"-n", Switch(), "link", "add", Port(i), "type", "veth",
                        "peer", "name", "eth0", "netns", Name(i)}));
    RETURN_IF_ERROR(
        Ip({"-n", Name(i), "addr", "add", Address(i) + "/24", "dev", "eth0"}));
    RETURN_IF_ERROR(Ip({"-n", Name(i), "link", "set", "lo", "up"}));
    RETURN_IF_ERROR(Ip({"-n", Name(i), "link", "set", "eth0", "up"}));
    RETURN_IF_ERROR(Ip({"-n", Switch(), "link", "set", Port(i), "up"}));
    RETURN_IF_ERROR(Mend(i));
  }
  return absl::OkStatus();
}

VirtualNetwork::~VirtualNetwork() {
  for (int i = 0; i < machines_; ++i) {
    Ip({"netns", "del", Name(i)}).IgnoreError();
  }
  if (machines_ > 0) Ip({"netns", "del", Switch()}).IgnoreError();
}

std::string VirtualNetwork::Address(int machine) {
  return absl::StrCat("10.77.0.", machine + 1);
}

std::string VirtualNetwork::Name(int machine) const {
  return absl::StrCat(prefix_, machine);
}

std::string VirtualNetwork::Switch() const { return prefix_ + "switch"; }

std::vector<std::string> VirtualNetwork::On(
    int machine, std::vector<std::string> argv) const {
  std::vector<std::string> command = {ip_, "netns", "exec", Name(machine)};
  command.insert(command.end(), argv.begin(), argv.end());
  return command;
}

std::vector<pid_t> VirtualNetwork::Pids(int machine) const {
  const CommandResult result =
      RunCommand({ip_, "netns", "pids", Name(machine)}, log_path_, kLimit);
  std::vector<pid_t> pids;
  std::istringstream words(result.out);
  for (pid_t pid = 0; words >> pid;) pids.push_back(pid);
  return pids;
}

absl::Status VirtualNetwork::Ip(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), ip_);
  const CommandResult result = RunCommand(arguments, log_path_, kLimit);
  if (result.exit_code == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(absl::StrJoin(arguments, " "),
                                          " ended with ", result.exit_code));
}

absl::Status VirtualNetwork::Cut(int machine) {
  // Only the switch disables the port, so that no machine sees its link go
  // down.
  return Ip({"-n", Switch(), "link", "set", Port(machine), "nomaster"});
}

absl::Status VirtualNetwork::Mend(int machine) {
  return Ip({"-n", Switch(), "link", "set", Port(machine), "master", "switch"});
}

absl::Status VirtualNetwork::Slow(int machine, const std::string& rate) {
  const std::pair<std::string, std::string> ends[] = {
      {Name(machine), "eth0"}, {Switch(), Port(machine)}};
  for (const auto& [name, device] : ends) {
    const std::vector<std::string> add = {tc_,   "-n",  name,   "qdisc",
                                          "add", "dev", device, "root"};
    std::vector<std::string> delay = add, bucket = add;
    for (const char* word : {"netem", "delay", "5ms", "rate"}) {
      delay.push_back(word);
    }
    delay.push_back(rate);
    if (RunCommand(delay, log_path_, kLimit).exit_code == 0) continue;
    for (const std::string& word :
         {std::string("tbf"), std::string("rate"), rate, std::string("burst"),
          std::string("32kbit"), std::string("latency"),
          std::string("500ms")}) {
      bucket.push_back(word);
    }
    if (RunCommand(bucket, log_path_, kLimit).exit_code != 0) {
      return absl::UnavailableError("the kernel has neither netem nor tbf");
    }
  }
  return absl::OkStatus();
}

absl::Status VirtualNetwork::MoveTo(int machine, const std::string& address) {
  RETURN_IF_ERROR(Ip({"-n", Name(machine), "addr", "flush", "dev", "eth0"}));
  return Ip(
      {"-n", Name(machine), "addr", "add", address + "/24", "dev", "eth0"});
}

}  // namespace comera::e2e
