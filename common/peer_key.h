#ifndef COMERA_COMMON_PEER_KEY_H_
#define COMERA_COMMON_PEER_KEY_H_

#include <sys/socket.h>

#include <string>

namespace comera {

// The ends of connections that count as one where connections are counted: the
// address of IPv4 (also inside IPv6), the /64 network of IPv6, which one
// machine has to itself, and "loopback ADDRESS" for this machine. Empty: none
// of these families.
std::string PeerKey(const sockaddr* address);

// Whether the key is one of this machine.
bool IsLoopbackKey(const std::string& key);

}  // namespace comera

#endif  // COMERA_COMMON_PEER_KEY_H_
