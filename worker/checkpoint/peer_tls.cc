// Derives the credentials of calls between workers from the worker's own
// certificate.

#include "worker/checkpoint/peer_tls.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/loopback.h"
#include "common/status_macros.h"

namespace comera::worker {

bool HasPeerTls(const ChannelSecurity& security) {
  return !security.certificate_file.empty() && !security.ca_file.empty() &&
         security.ca_file != "system";
}

absl::StatusOr<PeerTls> MakePeerTls(const ChannelSecurity& security) {
  PeerTls tls;
  if (!HasPeerTls(security)) return tls;
  ASSIGN_OR_RETURN(const std::string ca, ReadFile(security.ca_file));
  ASSIGN_OR_RETURN(const std::string certificate,
                   ReadFile(security.certificate_file));
  ASSIGN_OR_RETURN(const std::string key, ReadFile(security.key_file));
  grpc::SslServerCredentialsOptions server(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  server.pem_root_certs = ca;
  server.pem_key_cert_pairs.push_back({key, certificate});
  tls.server = grpc::SslServerCredentials(server);
  grpc::SslCredentialsOptions client;
  client.pem_root_certs = ca;
  client.pem_private_key = key;
  client.pem_cert_chain = certificate;
  tls.client = grpc::SslCredentials(client);
  return tls;
}

absl::Status CheckPlainPeers(const std::string& host) {
  if (IsLoopback(host) || host == "::1") return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "workers would exchange training states with ", host,
      " unencrypted: give each its certificate (--cert, --key and --ca=FILE, "
      "see deploy/tls.sh), or --insecure_peers where nobody else can reach "
      "that network, or --replica_memory=0 for no copies"));
}

}  // namespace comera::worker
