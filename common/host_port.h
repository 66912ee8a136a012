#ifndef COMERA_COMMON_HOST_PORT_H_
#define COMERA_COMMON_HOST_PORT_H_

#include "absl/strings/string_view.h"

namespace comera {

// Whether `address` is `host:port` and nothing that gRPC would take for another
// kind of target: a host name of letters, digits, "-", "_" and ".", which may
// end in one dot, an IPv4 address, or an IPv6 address in brackets, and a port
// from 1 to 65535. Names that gRPC would read as a scheme ("unix:80", "dns:80")
// are refused. For addresses that somebody else announced, before a connection
// is made.
bool IsHostPort(absl::string_view address);

}  // namespace comera

#endif  // COMERA_COMMON_HOST_PORT_H_
