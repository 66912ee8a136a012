#ifndef COMERA_WORKER_METRICS_METRICS_PORT_H_
#define COMERA_WORKER_METRICS_METRICS_PORT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "prometheus/collectable.h"
#include "prometheus/exposer.h"

namespace comera::worker {

// Answers GET /metrics unencrypted and without authentication: meant for
// loopback, or for a network of machines that trust each other. Serves from
// Start() until destruction, on threads of its own.
class MetricsPort {
 public:
  // `listen` is host:port with a numeric host (0.0.0.0 for all addresses of
  // this machine); port 0 means any free one. InvalidArgument: it is malformed.
  // Unavailable: the port is in use.
  static absl::StatusOr<std::unique_ptr<MetricsPort>> Start(
      const std::string& listen,
      std::shared_ptr<prometheus::Collectable> metrics);

  // The address, with the port that was bound.
  const std::string& address() const { return address_; }

 private:
  MetricsPort() = default;

  std::string address_;
  std::shared_ptr<prometheus::Collectable> metrics_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_METRICS_METRICS_PORT_H_
