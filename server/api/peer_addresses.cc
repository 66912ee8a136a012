// Checks announced addresses against connections, and looks up names.
#include "server/api/peer_addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/log.h"
#include "common/loopback.h"

namespace comera::server {
namespace {

constexpr absl::Duration kNameLifetime = absl::Minutes(1);
constexpr size_t kMaxNames = 100000;
// More wait for an answer only where somebody makes names up.
constexpr int kMaxPending = 10000;
constexpr char kLocal[] = "local";

// The canonical form of a numeric address, an IPv4 address in IPv6 as IPv4;
// empty: it is none.
std::string Canonical(const std::string& host) {
  in_addr four = {};
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) return host;
  in6_addr six = {};
  if (inet_pton(AF_INET6, host.c_str(), &six) != 1) return "";
  char text[INET6_ADDRSTRLEN] = {};
  if (IN6_IS_ADDR_V4MAPPED(&six)) {
    inet_ntop(AF_INET, &six.s6_addr[12], text, sizeof(text));
  } else {
    inet_ntop(AF_INET6, &six, text, sizeof(text));
  }
  return text;
}

std::string Numeric(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address == nullptr) return "";
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr,
              text, sizeof(text));
  } else if (address->sa_family == AF_INET6) {
    inet_ntop(AF_INET6,
              &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text,
              sizeof(text));
  }
  return Canonical(text);
}

std::vector<std::string> LookUp(const std::string& name) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  std::vector<std::string> addresses;
  if (getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    addresses.push_back(Numeric(one->ai_addr));
  }
  freeaddrinfo(found);
  return addresses;
}

bool IsOfThisMachine(const std::string& address) {
  if (IsLoopback(address) || address == "::1") return true;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return false;
  bool found = false;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    found = found || Numeric(one->ifa_addr) == address;
  }
  freeifaddrs(all);
  return found;
}

}  // namespace

std::string HostOfPeer(const std::string& peer) {
  if (absl::StartsWith(peer, "unix:") || absl::StartsWith(peer, "inproc")) {
    return kLocal;
  }
  const std::string plain =
      absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}});
  absl::string_view rest = plain;
  if (!absl::ConsumePrefix(&rest, "ipv4:") &&
      !absl::ConsumePrefix(&rest, "ipv6:")) {
    return "";
  }
  rest = rest.substr(0, rest.rfind(':'));
  if (absl::ConsumePrefix(&rest, "[")) absl::ConsumeSuffix(&rest, "]");
  // The zone of a link-local address.
  return Canonical(std::string(rest.substr(0, rest.find('%'))));
}

PeerAddresses::PeerAddresses(bool trusting, Resolver resolver)
    : trusting_(trusting),
      resolver_(resolver != nullptr ? std::move(resolver) : LookUp) {}

bool PeerAddresses::Accepts(const std::string& worker,
                            const std::string& announced,
                            const std::string& peer, absl::Time now) {
  if (trusting_ || announced.empty()) return true;
  std::string host = announced.substr(0, announced.rfind(':'));
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    host = host.substr(1, host.size() - 2);
  }
  const std::string from = HostOfPeer(peer);
  const std::string numeric = Canonical(host);
  const std::vector<std::string> addresses =
      numeric.empty() ? Resolve(host, now) : std::vector<std::string>{numeric};
  const bool here = from == kLocal || IsLoopback(from) || from == "::1";
  for (const std::string& address : addresses) {
    if (!address.empty() &&
        (address == from || (here && IsOfThisMachine(address)))) {
      return true;
    }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  // A name that has just been asked for is no news.
  const auto name = names_.find(host);
  if (numeric.empty() && name != names_.end() && name->second.pending) {
    return false;
  }
  if (refused_.size() < kMaxNames && refused_.insert(worker).second) {
    LOG(WARNING) << "worker=" << worker
                 << " event=peer_address_not_taken announced=\""
                 << absl::Utf8SafeCEscape(announced) << "\" comes_from=" << from
                 << " text=\"no copies of checkpoints and no predictions "
                    "there: give the worker the --address that it calls from, "
                    "or the coordinator --trust_peer_addresses\"";
  }
  return false;
}

std::vector<std::string> PeerAddresses::Resolve(const std::string& name,
                                                absl::Time now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (names_.size() >= kMaxNames && names_.count(name) == 0) return {};
  Name& known = names_[name];
  if (now >= known.until && !known.pending && pending_ < kMaxPending) {
    known.pending = true;
    ++pending_;
    lookups_.Post([this, name, now] {
      if (ending_) return;
      std::vector<std::string> addresses = resolver_(name);
      const std::lock_guard<std::mutex> lock(mutex_);
      --pending_;
      Name& found = names_[name];
      // A resolver that fails takes nothing back.
      if (!addresses.empty()) found.addresses = std::move(addresses);
      found.until = now + kNameLifetime;
      found.pending = false;
    });
  }
  return known.addresses;
}

}  // namespace comera::server
