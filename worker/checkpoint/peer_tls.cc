// Derives the credentials of calls between workers from the worker's own
// certificate.

#include "worker/checkpoint/peer_tls.h"

#include <string>

#include "common/files.h"
#include "common/status_macros.h"

namespace comera::worker {

absl::StatusOr<PeerTls> MakePeerTls(const ChannelSecurity& security) {
  PeerTls tls;
  if (security.certificate_file.empty() || security.ca_file.empty() ||
      security.ca_file == "system") {
    return tls;
  }
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

}  // namespace comera::worker
