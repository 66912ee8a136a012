// Tells addresses of the form host:port from other targets of gRPC.

#include "common/host_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace comera {
namespace {

constexpr size_t kMaxHostBytes = 253;
constexpr size_t kMaxLabelBytes = 63;
constexpr int kMaxPort = 65535;

bool IsPort(absl::string_view text) {
  if (text.empty() || text.size() > 5 || text[0] == '0') return false;
  int port = 0;
  for (const char c : text) {
    if (!absl::ascii_isdigit(c)) return false;
    port = 10 * port + (c - '0');
  }
  return port <= kMaxPort;
}

// Whether gRPC has, or may have, a resolver of that name.
bool IsScheme(absl::string_view host) {
  for (const char* scheme :
       {"unix", "unix-abstract", "vsock", "dns", "ipv4", "ipv6", "sockaddr",
        "xds", "xds-experimental", "google-c2p", "google-c2p-experimental",
        "fake", "inproc"}) {
    if (absl::EqualsIgnoreCase(host, scheme)) return true;
  }
  return false;
}

bool IsHostName(absl::string_view host) {
  // A dot at the end says that the name is complete.
  host = absl::StripSuffix(host, ".");
  if (host.empty() || host.size() > kMaxHostBytes || IsScheme(host)) {
    return false;
  }
  for (const absl::string_view label : absl::StrSplit(host, '.')) {
    if (label.empty() || label.size() > kMaxLabelBytes || label[0] == '-' ||
        !std::all_of(label.begin(), label.end(), [](char c) {
          return absl::ascii_isalnum(c) || c == '-' || c == '_';
        })) {
      return false;
    }
  }
  return true;
}

bool IsIpv6(absl::string_view host) {
  in6_addr address;
  return host.size() <= kMaxHostBytes &&
         host.find('\0') == absl::string_view::npos &&
         inet_pton(AF_INET6, std::string(host).c_str(), &address) == 1;
}

}  // namespace

bool IsHostPort(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || !IsPort(address.substr(colon + 1))) {
    return false;
  }
  const absl::string_view host = address.substr(0, colon);
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]") &&
      host.size() > 2) {
    return IsIpv6(host.substr(1, host.size() - 2));
  }
  return IsHostName(host);
}

}  // namespace comera
