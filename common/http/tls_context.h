#ifndef COMERA_COMMON_HTTP_TLS_CONTEXT_H_
#define COMERA_COMMON_HTTP_TLS_CONTEXT_H_

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/http/tls_files.h"

namespace comera {

// The files of TlsFiles for Asio, read again when they change. Not thread-safe.
class TlsContext {
 public:
  // InvalidArgument: files missing, unreadable, no PEM, or a key of another
  // certificate.
  static absl::StatusOr<std::unique_ptr<TlsContext>> Load(
      const TlsFiles& files);

  // The context of new connections. Never null.
  const std::shared_ptr<boost::asio::ssl::context>& context() const {
    return context_;
  }
  // To be called often: looks at the files every refresh_seconds. Those that
  // are no good are logged once, and the old ones stay.
  void Refresh();

 private:
  explicit TlsContext(const TlsFiles& files) : files_(files) {}

  // What tells whether a file has changed.
  std::string Fingerprint() const;
  absl::Status Read();

  const TlsFiles files_;
  std::shared_ptr<boost::asio::ssl::context> context_;
  std::string fingerprint_;
  absl::Time next_look_;
};

}  // namespace comera

#endif  // COMERA_COMMON_HTTP_TLS_CONTEXT_H_
