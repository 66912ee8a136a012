// Turns what the server's parts count into metric families.
#include "server/metrics/state_families.h"

#include <set>
#include <string>

namespace comera::server {

prometheus::MetricFamily JobsFamily(const JobDirectory::Counts& counts) {
  prometheus::MetricFamily family;
  family.name = "comera_jobs";
  family.help = "Jobs that are kept, by queue and state.";
  family.type = prometheus::MetricType::Gauge;
  std::set<std::string> queues;
  for (const auto& [key, count] : counts) queues.insert(key.first);
  const auto* states = v1::JobState_descriptor();
  for (const std::string& queue : queues) {
    for (int i = 1; i < states->value_count(); ++i) {
      const auto state = static_cast<v1::JobState>(states->value(i)->number());
      const auto count = counts.find({queue, state});
      prometheus::ClientMetric& metric = family.metric.emplace_back();
      metric.label = {{"queue", queue}, {"state", v1::JobState_Name(state)}};
      metric.gauge.value =
          count == counts.end() ? 0 : static_cast<double>(count->second);
    }
  }
  return family;
}

prometheus::MetricFamily RefusalsFamily(const UserLimits::Refusals& refusals) {
  prometheus::MetricFamily family;
  family.name = "comera_rate_limit_refusals_total";
  family.help = "Calls refused because their user had reached a limit.";
  family.type = prometheus::MetricType::Counter;
  const auto add = [&family](const char* limit, int64_t count) {
    prometheus::ClientMetric& metric = family.metric.emplace_back();
    metric.label = {{"limit", limit}};
    metric.counter.value = static_cast<double>(count);
  };
  add("requests", refusals.requests);
  add("submissions", refusals.submissions);
  add("streams", refusals.streams);
  add("uploads", refusals.uploads);
  add("downloads", refusals.downloads);
  add("dataset_changes", refusals.dataset_changes);
  return family;
}

}  // namespace comera::server
