// Resolves coordinators' addresses and configures channels that follow the
// leader.

#include "common/coordinator_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"

namespace comera {
namespace {

struct HostPort {
  std::string host;
  std::string port;
};

absl::StatusOr<HostPort> Split(absl::string_view text) {
  const size_t colon = text.rfind(':');
  int port = 0;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(text.substr(colon + 1), &port) || port < 1 ||
      port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("server: \"", text, "\" is not host:port"));
  }
  HostPort result{std::string(text.substr(0, colon)),
                  std::string(text.substr(colon + 1))};
  if (result.host.size() > 2 && result.host.front() == '[' &&
      result.host.back() == ']') {
    result.host = result.host.substr(1, result.host.size() - 2);
  }
  return result;
}

// The numeric addresses in one family, as host:port.
absl::StatusOr<std::vector<std::string>> Resolve(const HostPort& server,
                                                 int family) {
  addrinfo hints = {};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code =
      getaddrinfo(server.host.c_str(), server.port.c_str(), &hints, &found);
  if (code != 0) {
    return absl::UnavailableError(
        absl::StrCat("server ", server.host, ": ", gai_strerror(code)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found,
                                                             freeaddrinfo);
  std::vector<std::string> addresses;
  for (; found != nullptr; found = found->ai_next) {
    char text[INET6_ADDRSTRLEN];
    const void* bytes =
        family == AF_INET
            ? static_cast<const void*>(
                  &reinterpret_cast<sockaddr_in*>(found->ai_addr)->sin_addr)
            : &reinterpret_cast<sockaddr_in6*>(found->ai_addr)->sin6_addr;
    inet_ntop(family, bytes, text, sizeof(text));
    addresses.push_back(family == AF_INET
                            ? absl::StrCat(text, ":", server.port)
                            : absl::StrCat("[", text, "]:", server.port));
  }
  return addresses;
}

// The addresses of all servers, in one family.
absl::StatusOr<std::string> ResolveAll(const std::vector<HostPort>& servers,
                                       int family, absl::string_view scheme) {
  std::vector<std::string> all;
  for (const HostPort& server : servers) {
    ASSIGN_OR_RETURN(const std::vector<std::string> some,
                     Resolve(server, family));
    all.insert(all.end(), some.begin(), some.end());
  }
  return absl::StrCat(scheme, absl::StrJoin(all, ","));
}

// Calls go only to connections reported as healthy, which means to the leader.
void FollowLeader(grpc::ChannelArguments* arguments) {
  arguments->SetServiceConfigJSON(
      absl::StrCat("{\"loadBalancingConfig\": [{\"round_robin\": {}}], "
                   "\"healthCheckConfig\": {\"serviceName\": \"",
                   kLeaderHealth, "\"}}"));
}

// Pings find dead connections: a machine that disappears, or whose address
// moves, notifies nobody, and its clients would wait for many minutes. The
// coordinator refuses pings that come more often than every five seconds.
void FindDeadConnections(grpc::ChannelArguments* arguments) {
  arguments->SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 6000);
  arguments->SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 8000);
  // A held call carries no data for a long time.
  arguments->SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
}

}  // namespace

absl::StatusOr<std::string> CoordinatorTarget(
    const std::string& servers, grpc::ChannelArguments* arguments) {
  FindDeadConnections(arguments);
  if (!absl::StrContains(servers, ",")) {
    if (absl::StartsWith(servers, "dns:")) FollowLeader(arguments);
    return servers;
  }
  std::vector<HostPort> parts;
  for (absl::string_view part : absl::StrSplit(servers, ',')) {
    ASSIGN_OR_RETURN(HostPort server, Split(part));
    parts.push_back(std::move(server));
  }
  FollowLeader(arguments);
  // The authority is the name in the certificate, which calls are addressed to;
  // a target of several servers has none of its own.
  arguments->SetString(GRPC_ARG_DEFAULT_AUTHORITY, parts[0].host);
  absl::StatusOr<std::string> target = ResolveAll(parts, AF_INET, "ipv4:");
  if (!target.ok()) target = ResolveAll(parts, AF_INET6, "ipv6:");
  return target;
}

}  // namespace comera
