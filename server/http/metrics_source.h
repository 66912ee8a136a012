#ifndef COMERA_SERVER_HTTP_METRICS_SOURCE_H_
#define COMERA_SERVER_HTTP_METRICS_SOURCE_H_

#include <functional>
#include <string>

namespace comera::server {

// What GET /metrics answers: all metrics in Prometheus' text format 0.0.4. It
// is called on a thread of the HTTP port, once a scrape: any thread, several at
// once, and it must not wait for the event loop. Empty function: there are no
// metrics, and the path is not found.
using MetricsSource = std::function<std::string()>;

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_METRICS_SOURCE_H_
