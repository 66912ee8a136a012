#ifndef COMERA_SERVER_AUTH_TLS_CREDENTIALS_H_
#define COMERA_SERVER_AUTH_TLS_CREDENTIALS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/http/tls_files.h"
#include "grpcpp/grpcpp.h"

namespace comera::server {

// Clear text if not enabled. InvalidArgument: files missing, unreadable, no
// PEM, or a key of another certificate.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentialsFrom(
    const TlsFiles& files);

}  // namespace comera::server

#endif  // COMERA_SERVER_AUTH_TLS_CREDENTIALS_H_
