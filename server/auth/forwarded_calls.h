#ifndef COMERA_SERVER_AUTH_FORWARDED_CALLS_H_
#define COMERA_SERVER_AUTH_FORWARDED_CALLS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "grpcpp/grpcpp.h"

namespace comera::server {

// Tells calls that the HTTP port passes on within the process, and those that
// another coordinator passes on to the leader, from calls off the network, and
// who made them. The mark is a secret of this process, or of the present
// leadership, so that nobody else can say to be somebody's proxy. Gives no
// permissions: those come from tokens. Immutable; thread-safe.
class ForwardedCalls {
 public:
  struct Origin {
    // "http:127.0.0.1:40000".
    std::string peer;
    // Common name of the client's certificate, which whoever passes the call on
    // has checked; empty: none.
    std::string certificate_name;
  };

  // `leaders_secret`: of the leadership, in a leader of several coordinators;
  // empty: nobody else passes calls on to this process.
  explicit ForwardedCalls(std::string leaders_secret = "");

  // Marks a call within this process.
  void Mark(const Origin& origin, grpc::ClientContext* context) const {
    Mark(secret_, origin, context);
  }
  // Marks a call to the leader that knows `secret`.
  static void Mark(const std::string& secret, const Origin& origin,
                   grpc::ClientContext* context);
  // Whether the metadata of that name belongs to a mark.
  static bool IsMark(absl::string_view key);
  // Whether the call has a mark, genuine or not.
  static bool IsMarked(const grpc::ServerContextBase& context);
  // Nothing: the call came over the network, from whoever made it.
  std::optional<Origin> Find(const grpc::ServerContextBase& context) const;
  // Returns who made the call, also over the network.
  Origin OriginOf(const grpc::ServerContextBase& context) const;
  // The common name of the certificate that the connection's other end has
  // shown; empty: none.
  static std::string CertificateName(const grpc::ServerContextBase& context);
  // The address of the caller, also of one on the network.
  std::string Peer(const grpc::ServerContextBase& context) const;

 private:
  const std::string leaders_secret_;
  std::string secret_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_AUTH_FORWARDED_CALLS_H_
