// Names the far ends of connections.
#include "common/peer_key.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace comera {
namespace {

constexpr char kLoopback[] = "loopback ";

std::string KeyOfV4(const in_addr& address) {
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &address, text, sizeof(text));
  const bool here = (ntohl(address.s_addr) >> 24) == 127;
  return absl::StrCat(here ? kLoopback : "", text);
}

}  // namespace

std::string PeerKey(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    return KeyOfV4(reinterpret_cast<const sockaddr_in*>(address)->sin_addr);
  }
  if (address->sa_family != AF_INET6) return "";
  in6_addr v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {
    in_addr v4;
    memcpy(&v4, v6.s6_addr + 12, sizeof(v4));
    return KeyOfV4(v4);
  }
  char text[INET6_ADDRSTRLEN] = "";
  if (IN6_IS_ADDR_LOOPBACK(&v6)) return absl::StrCat(kLoopback, "::1");
  memset(v6.s6_addr + 8, 0, 8);
  inet_ntop(AF_INET6, &v6, text, sizeof(text));
  return absl::StrCat(text, "/64");
}

bool IsLoopbackKey(const std::string& key) {
  return absl::StartsWith(key, kLoopback);
}

}  // namespace comera
