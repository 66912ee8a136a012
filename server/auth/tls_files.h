#ifndef COMERA_SERVER_AUTH_TLS_FILES_H_
#define COMERA_SERVER_AUTH_TLS_FILES_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"

namespace comera::server {

// PEM files of a server that speaks TLS. They are looked at every few seconds,
// and what changed is used for new connections, which fail as long as key and
// certificate do not belong together.
struct TlsFiles {
  // The certificate with those that lead to its authority, and its key. Empty:
  // no TLS.
  std::string certificate;
  std::string key;
  // Authorities of clients' certificates: then every client and worker needs
  // one. Empty: none is asked for.
  std::string client_ca;
  unsigned refresh_seconds = 10;

  bool enabled() const { return !certificate.empty(); }
};

// Checks files that are enabled. InvalidArgument: missing, unreadable, no PEM,
// or a key of another certificate.
absl::Status CheckTlsFiles(const TlsFiles& files);

// Clear text if not enabled. InvalidArgument: files missing, unreadable, no
// PEM, or a key of another certificate.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentialsFrom(
    const TlsFiles& files);

}  // namespace comera::server

#endif  // COMERA_SERVER_AUTH_TLS_FILES_H_
