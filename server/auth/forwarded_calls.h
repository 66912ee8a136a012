#ifndef COMERA_SERVER_AUTH_FORWARDED_CALLS_H_
#define COMERA_SERVER_AUTH_FORWARDED_CALLS_H_

#include <optional>
#include <string>

#include "grpcpp/grpcpp.h"

namespace comera::server {

// Tells calls that the HTTP port passes on within the process from calls off
// the network, and who made them. The mark is a secret of this process, so that
// nobody else can say to be somebody's proxy. Gives no permissions: those come
// from tokens. Immutable; thread-safe.
class ForwardedCalls {
 public:
  struct Origin {
    // "http:127.0.0.1:40000".
    std::string peer;
    // Common name of the client's certificate, which the HTTP port has checked;
    // empty: none.
    std::string certificate_name;
  };

  ForwardedCalls();

  void Mark(const Origin& origin, grpc::ClientContext* context) const;
  // Nothing: the call came over the network.
  std::optional<Origin> Find(const grpc::ServerContextBase& context) const;
  // The address of the caller, also of one on the network.
  std::string Peer(const grpc::ServerContextBase& context) const;

 private:
  std::string secret_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_AUTH_FORWARDED_CALLS_H_
