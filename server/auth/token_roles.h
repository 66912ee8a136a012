#ifndef COMERA_SERVER_AUTH_TOKEN_ROLES_H_
#define COMERA_SERVER_AUTH_TOKEN_ROLES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "comera/v1/access_service.pb.h"
#include "server/auth/access.h"

namespace comera::server {

// Returns OK if the token's roles give the permission on the queue (empty: on
// the server as a whole), else PermissionDenied.
absl::Status CheckToken(const v1::Token& token, Permission permission,
                        const std::string& queue);

// Whether `pattern` is a name of a worker, or the beginning of such names and a
// `*`.
bool IsWorkerPattern(absl::string_view pattern);

// Whether the token names the worker. Tokens of an earlier version name none.
bool IsTokenOfWorker(const v1::Token& token, absl::string_view worker);

// Whether a certificate of that common name stands for the worker: the worker
// bears the name, in the letters that names of workers have, or the name with a
// number, by which the Slurm script tells the allocations of a node apart.
bool IsCertificateOfWorker(absl::string_view common_name,
                           absl::string_view worker);

}  // namespace comera::server

#endif  // COMERA_SERVER_AUTH_TOKEN_ROLES_H_
