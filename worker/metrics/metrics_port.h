#ifndef COMERA_WORKER_METRICS_METRICS_PORT_H_
#define COMERA_WORKER_METRICS_METRICS_PORT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "prometheus/collectable.h"
#include "prometheus/exposer.h"

namespace comera::worker {

// Answers GET /metrics in the clear and asks nobody who he is: for loopback, or
// a network of machines that trust each other. Serves from Start() until
// destruction, on threads of its own.
class MetricsPort {
 public:
  // `listen`: host:port, host a number (0.0.0.0: all of this machine's
  // addresses); port 0: any free one. InvalidArgument: it is not. Unavailable:
  // the port is taken.
  static absl::StatusOr<std::unique_ptr<MetricsPort>> Start(
      const std::string& listen,
      std::shared_ptr<prometheus::Collectable> metrics);

  // With the port that was bound.
  const std::string& address() const { return address_; }

 private:
  MetricsPort() = default;

  std::string address_;
  std::shared_ptr<prometheus::Collectable> metrics_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_METRICS_METRICS_PORT_H_
