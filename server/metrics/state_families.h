// What the server's parts count anyhow, as metrics.
#ifndef COMERA_SERVER_METRICS_STATE_FAMILIES_H_
#define COMERA_SERVER_METRICS_STATE_FAMILIES_H_

#include "prometheus/metric_family.h"
#include "server/auth/rate_limit.h"
#include "server/view/job_directory.h"

namespace comera::server {

// comera_jobs{queue, state}: of every queue with jobs all states.
prometheus::MetricFamily JobsFamily(const JobDirectory::Counts& counts);

// comera_rate_limit_refusals_total{limit}.
prometheus::MetricFamily RefusalsFamily(const UserLimits::Refusals& refusals);

}  // namespace comera::server

#endif  // COMERA_SERVER_METRICS_STATE_FAMILIES_H_
