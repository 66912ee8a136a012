// Opens the HTTP port on which Prometheus reads a worker's metrics.

#include "worker/metrics/metrics_port.h"

#include <arpa/inet.h>

#include <exception>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace comera::worker {
namespace {

bool IsAddress(const std::string& host) {
  char bytes[sizeof(in6_addr)];
  if (inet_pton(AF_INET, host.c_str(), bytes) == 1) return true;
  return host.size() > 2 && host.front() == '[' && host.back() == ']' &&
         inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), bytes) ==
             1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsPort>> MetricsPort::Start(
    const std::string& listen,
    std::shared_ptr<prometheus::Collectable> metrics) {
  const size_t colon = listen.rfind(':');
  int port = 0;
  // Exposer takes a list of options, one of which is the address.
  if (colon == std::string::npos || !IsAddress(listen.substr(0, colon)) ||
      !absl::SimpleAtoi(listen.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("metrics_listen: \"", listen,
                     "\" is not address:port, e.g. 127.0.0.1:7401"));
  }
  std::unique_ptr<MetricsPort> served(new MetricsPort);
  try {
    served->exposer_ = std::make_unique<prometheus::Exposer>(listen, 2);
    const std::vector<int> ports = served->exposer_->GetListeningPorts();
    if (ports.empty()) return absl::UnavailableError("metrics_listen: no port");
    served->address_ = absl::StrCat(listen.substr(0, colon), ":", ports[0]);
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("metrics_listen: ", listen, ": ", error.what()));
  }
  served->metrics_ = std::move(metrics);
  served->exposer_->RegisterCollectable(served->metrics_);
  return served;
}

}  // namespace comera::worker
