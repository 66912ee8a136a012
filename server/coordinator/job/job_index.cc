// Implements JobIndex: unfinished jobs are kept by state.
#include "server/coordinator/job/job_index.h"

namespace comera::server {

bool IsActive(v1::JobState state) {
  return state == v1::STARTING || state == v1::RUNNING ||
         state == v1::CANCELLING;
}

void JobIndex::Update(const v1::Job& job, int64_t serial, JobEntry* entry) {
  const auto key = std::make_pair(-int64_t{job.spec().priority()}, serial);
  if (job.state() == v1::QUEUED) {
    queued_[key] = entry;
  } else {
    queued_.erase(key);
  }
  if (IsActive(job.state())) {
    active_[job.name()] = entry;
    active_by_serial_[serial] = entry;
  } else {
    active_.erase(job.name());
    active_by_serial_.erase(serial);
  }
}

std::vector<JobEntry*> JobIndex::Queued() const {
  std::vector<JobEntry*> entries;
  entries.reserve(queued_.size());
  for (const auto& [key, entry] : queued_) entries.push_back(entry);
  return entries;
}

}  // namespace comera::server
