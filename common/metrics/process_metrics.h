#ifndef COMERA_COMMON_METRICS_PROCESS_METRICS_H_
#define COMERA_COMMON_METRICS_PROCESS_METRICS_H_

#include <string>
#include <vector>

#include "prometheus/metric_family.h"

namespace comera {

// The metrics of this process that Prometheus' own client libraries export:
// process_cpu_..., process_resident_memory_bytes, process_open_fds and so on,
// and comera_build_info. They are read from /proc; what cannot be read is left
// out. Thread-safe.
std::vector<prometheus::MetricFamily> CollectProcessMetrics();

// A family with one gauge or counter without labels.
prometheus::MetricFamily MakeGauge(const std::string& name,
                                   const std::string& help, double value);
prometheus::MetricFamily MakeCounter(const std::string& name,
                                     const std::string& help, double value);

// The size and free space of the file system that holds `path`, as
// comera_disk_bytes and comera_disk_free_bytes; none if they cannot be read.
std::vector<prometheus::MetricFamily> CollectDiskMetrics(
    const std::string& path);

}  // namespace comera

#endif  // COMERA_COMMON_METRICS_PROCESS_METRICS_H_
