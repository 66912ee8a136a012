#ifndef COMERA_COMMON_HTTP_TLS_FILES_H_
#define COMERA_COMMON_HTTP_TLS_FILES_H_

#include <string>

#include "absl/status/status.h"

namespace comera {

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
  // What the names of their flags begin with, for messages: "tls_" in
  // "tls_cert".
  std::string flags = "tls_";

  bool enabled() const { return !certificate.empty(); }
};

// Checks files that are enabled. InvalidArgument: missing, unreadable, no PEM,
// or a key of another certificate.
absl::Status CheckTlsFiles(const TlsFiles& files);

}  // namespace comera

#endif  // COMERA_COMMON_HTTP_TLS_FILES_H_
