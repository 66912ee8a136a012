// Which finished jobs are forgotten.
#include <set>
#include <string>

#include "proto/job_state.h"
#include "server/coordinator/coordinator.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

// `jobs/a` of `jobs/a/checkpoints/7`; empty if it is none.
std::string JobOf(const std::string& name) {
  const size_t slash = name.find('/', sizeof("jobs/") - 1);
  return slash == std::string::npos ? "" : name.substr(0, slash);
}

}  // namespace

std::vector<std::string> Coordinator::ExpiredJobs(absl::Time ended_before,
                                                  size_t limit) const {
  // What unfinished jobs begin with stays.
  std::set<std::string> needed;
  for (const auto& [name, entry] : jobs_.jobs()) {
    if (IsFinal(entry.job().state())) continue;
    needed.insert(JobOf(entry.job().spec().start_from().checkpoint()));
  }
  std::vector<std::string> expired;
  for (const auto& [name, entry] : jobs_.jobs()) {
    if (expired.size() == limit) break;
    if (!IsFinal(entry.job().state()) || !entry.job().has_end_time() ||
        FromTimestamp(entry.job().end_time()) >= ended_before ||
        needed.count(name) > 0) {
      continue;
    }
    expired.push_back(name);
  }
  return expired;
}

void Coordinator::Forget(const std::vector<std::string>& names,
                         Effects* effects) {
  for (const std::string& name : names) {
    const JobEntry* entry = jobs_.Find(name);
    if (entry == nullptr || !IsFinal(entry->job().state())) continue;
    jobs_.Remove(name);
    effects->deleted_jobs.push_back(name);
  }
}

}  // namespace comera::server
