// Finds finished jobs that are old enough to be forgotten.
#include "server/coordinator/job/job_retention.h"

#include <set>

#include "proto/job_state.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

// `jobs/a` of `jobs/a/checkpoints/7`; empty if it is none.
std::string JobOf(const std::string& name) {
  const size_t slash = name.find('/', sizeof("jobs/") - 1);
  return slash == std::string::npos ? "" : name.substr(0, slash);
}

}  // namespace

std::vector<std::string> FindExpiredJobs(const JobTable& jobs,
                                         absl::Time ended_before,
                                         size_t limit) {
  std::set<std::string> continued;
  for (const auto& [name, entry] : jobs.jobs()) {
    if (IsFinal(entry.state())) continue;
    continued.insert(JobOf(entry.job().spec().start_from().checkpoint()));
  }
  std::vector<std::string> expired;
  for (const auto& [name, entry] : jobs.jobs()) {
    if (expired.size() == limit) break;
    if (!IsFinal(entry.state()) || !entry.job().has_end_time() ||
        FromTimestamp(entry.job().end_time()) >= ended_before ||
        continued.count(name) > 0) {
      continue;
    }
    expired.push_back(name);
  }
  return expired;
}

}  // namespace comera::server
