// The workers that may have a job's training states.
#ifndef COMERA_SERVER_COORDINATOR_JOB_STATE_HOLDERS_H_
#define COMERA_SERVER_COORDINATOR_JOB_STATE_HOLDERS_H_

#include <string>
#include <vector>

#include "server/store/job_record.pb.h"

namespace comera::server {

// More runners, or keepers, than this are not remembered. Those that no named
// checkpoint lies with are dropped first.
constexpr int kMaxStateHolders = 64;

// Member 0 is placed on the worker, and saves states there.
void NoteStateRunner(const std::string& worker, JobRecord* record);
// The worker is told to keep copies of the job's states, or to fetch one.
// Returns whether that is news.
bool NoteStateKeeper(const std::string& worker, JobRecord* record);
// Notes what can be known of a record of an earlier version: the workers of its
// last attempts, and those that its named checkpoints lie with.
void AdoptStateHolders(JobRecord* record);

// The workers that have run the job. Some are named twice.
std::vector<std::string> StateRunners(const JobRecord& record);
// These and the workers that were told to keep or to fetch a state. What they
// have in memory may be newer than anything that member 0 has announced.
std::vector<std::string> StateHolders(const JobRecord& record);
// Whether a state of the job may be on the worker's disk or in its memory. Any
// other worker that says so lies, or belongs to another coordinator.
bool MayHoldStates(const JobRecord& record, const std::string& worker);

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_STATE_HOLDERS_H_
