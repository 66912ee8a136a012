#ifndef COMERA_COMMON_METRICS_PROCESS_METRICS_H_
#define COMERA_COMMON_METRICS_PROCESS_METRICS_H_

#include <string>
#include <vector>

#include "prometheus/metric_family.h"

namespace comera {

// This process as Prometheus' own client libraries show one: process_cpu_...,
// process_resident_memory_bytes, process_open_fds and so on, and
// comera_build_info. Reads /proc; what it cannot read is left out. Any thread.
std::vector<prometheus::MetricFamily> CollectProcessMetrics();

// A family of one gauge or counter without labels.
prometheus::MetricFamily MakeGauge(const std::string& name,
                                   const std::string& help, double value);
prometheus::MetricFamily MakeCounter(const std::string& name,
                                     const std::string& help, double value);

// Size and free room of the file system with `path`, as comera_disk_bytes and
// comera_disk_free_bytes; nothing if it cannot be asked.
std::vector<prometheus::MetricFamily> CollectDiskMetrics(
    const std::string& path);

}  // namespace comera

#endif  // COMERA_COMMON_METRICS_PROCESS_METRICS_H_
