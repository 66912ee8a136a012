// Finds finished jobs that are old enough to be forgotten.
#include "server/coordinator/job/job_retention.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/job_state.h"
#include "server/coordinator/job/kept_models.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

// `jobs/a` of `jobs/a/checkpoints/7`; empty if it is none.
std::string JobOf(const std::string& name) {
  const size_t slash = name.find('/', sizeof("jobs/") - 1);
  return slash == std::string::npos ? "" : name.substr(0, slash);
}

}  // namespace

absl::Status CheckMayBeForgotten(const JobEntry& entry, const JobTable& jobs) {
  if (!IsFinal(entry.state())) {
    return absl::FailedPreconditionError(absl::StrCat(
        entry.name(), " has not finished; cancel it, and wait for its end"));
  }
  for (const v1::Artifact& model : entry.job().models()) {
    RETURN_IF_ERROR(CheckMayGo(model));
  }
  for (const auto& [name, other] : jobs.jobs()) {
    if (IsFinal(other.state()) ||
        JobOf(other.job().spec().start_from().checkpoint()) != entry.name()) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        name, ", which has not finished, starts from a checkpoint of ",
        entry.name()));
  }
  return absl::OkStatus();
}

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
        continued.count(name) > 0 || KeepsModels(entry.job())) {
      continue;
    }
    expired.push_back(name);
  }
  return expired;
}

}  // namespace comera::server
