#ifndef COMERA_SERVER_COORDINATOR_JOB_JOB_INDEX_H_
#define COMERA_SERVER_COORDINATOR_JOB_JOB_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "comera/v1/job.pb.h"

namespace comera::server {

class JobEntry;

// Whether a job in this state has an attempt: STARTING, RUNNING or CANCELLING.
bool IsActive(v1::JobState state);

// The unfinished jobs by state: the queued ones in serving order, the active
// ones by name and in order of acceptance. Not thread-safe.
class JobIndex {
 public:
  // Brings the job's place in line with its state.
  void Update(const v1::Job& job, int64_t serial, JobEntry* entry);

  // The queued jobs by priority, then by order of acceptance.
  std::vector<JobEntry*> Queued() const;
  size_t queued_count() const { return queued_.size(); }
  // The active jobs by name.
  const std::map<std::string, JobEntry*>& active() const { return active_; }
  // The active jobs by order of acceptance.
  const std::map<int64_t, JobEntry*>& active_by_serial() const {
    return active_by_serial_;
  }

 private:
  // The key is (-priority, serial).
  std::map<std::pair<int64_t, int64_t>, JobEntry*> queued_;
  std::map<std::string, JobEntry*> active_;
  std::map<int64_t, JobEntry*> active_by_serial_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_JOB_INDEX_H_
