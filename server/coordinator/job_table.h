#ifndef COMERA_SERVER_COORDINATOR_JOB_TABLE_H_
#define COMERA_SERVER_COORDINATOR_JOB_TABLE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "proto/job_state.h"
#include "server/coordinator/hang_watch.h"
#include "server/coordinator/rendezvous_mirror.h"
#include "server/scheduler/job_demand.h"
#include "server/scheduler/wait_reason.h"
#include "server/store/job_record.pb.h"

namespace comera::server {

// STARTING, RUNNING or CANCELLING: it has an attempt.
bool IsActive(v1::JobState state);

// What the coordinator remembers of a rank beyond the record; lost when it
// restarts.
struct MemberWatch {
  // When its worker last listed it, or was first expected to.
  absl::Time last_listed;
  // The worker's answers from this version on ask for the rank, and from that
  // one on do so no more.
  int64_t start_version = 0;
  int64_t stop_version = 0;
};

struct JobEntry {
  JobRecord record;
  // Of the current attempt.
  std::vector<MemberWatch> ranks;
  RendezvousMirror rendezvous;
  HangWatch hang;
  absl::Time placed;
  // By this coordinator, not by one before it.
  bool placed_here = false;
  // When rank 0 ended with a result; InfiniteFuture before.
  absl::Time result_time = absl::InfiniteFuture();

  // Of the specification.
  JobDemand demand;
  // What `reason` last told of a queued job; kNone: something else.
  WaitReason wait;

  v1::Job& job() { return *record.mutable_job(); }
  const v1::Job& job() const { return record.job(); }

  // Queued, and waits for nothing but time before it is tried again.
  absl::Time retry_at = absl::InfinitePast();
};

// All jobs, with the indexes that the coordinator needs. Pointers stay valid.
// Not thread-safe.
class JobTable {
 public:
  // Null if unknown.
  JobEntry* Find(const std::string& name);
  const JobEntry* Find(const std::string& name) const;
  JobEntry* FindRequest(const std::string& request_id);
  JobEntry* Add(JobRecord record);
  // The job must not be active or queued.
  void Remove(const std::string& name);
  // Tells the indexes that the job's state is another one.
  void StateChanged(JobEntry& entry);

  // Names in serving order: priority, then order of acceptance.
  std::vector<std::string> Queued() const;
  // The same as entries.
  std::vector<JobEntry*> QueuedEntries() const;
  // The active ones by order of acceptance.
  const std::map<int64_t, JobEntry*>& active_entries() const {
    return active_entries_;
  }
  const std::set<std::string>& active() const { return active_; }
  const std::map<std::string, JobEntry>& jobs() const { return jobs_; }
  size_t queued_count() const { return queued_.size(); }
  int64_t last_serial() const { return last_serial_; }

 private:
  std::map<std::string, JobEntry> jobs_;
  std::map<std::string, std::string> requests_;
  // (-priority, serial)
  std::map<std::pair<int64_t, int64_t>, JobEntry*> queued_;
  std::set<std::string> active_;
  std::map<int64_t, JobEntry*> active_entries_;
  int64_t last_serial_ = 0;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_TABLE_H_
