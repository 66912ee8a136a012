#ifndef COMERA_SERVER_COORDINATOR_JOB_JOB_TABLE_H_
#define COMERA_SERVER_COORDINATOR_JOB_JOB_TABLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "server/coordinator/job/job_entry.h"
#include "server/coordinator/job/job_index.h"
#include "server/store/job_record.pb.h"

namespace comera::server {

// All jobs by name, by request and by the aliases of their models, and the
// unfinished ones by state. Pointers stay valid. Not thread-safe.
class JobTable {
 public:
  // Null if unknown.
  JobEntry* Find(const std::string& name);
  const JobEntry* Find(const std::string& name) const;
  const JobEntry* FindRequest(const std::string& request_id) const;
  // The active job of that name, if this is its current attempt; else null.
  JobEntry* FindAttempt(const std::string& name, int64_t attempt);
  // The job of the model that the alias stands for; null: of none.
  const JobEntry* FindAlias(const std::string& alias) const;
  // The alias now stands for a model of this job, or for none (null). To be
  // called with every change of a model's aliases.
  void NoteAlias(const std::string& alias, const JobEntry* job);
  JobEntry* Add(JobRecord record);
  // The job must have ended.
  void Remove(const std::string& name);

  const std::map<std::string, JobEntry>& jobs() const { return jobs_; }
  const JobIndex& index() const { return index_; }
  int64_t last_serial() const { return last_serial_; }

 private:
  std::map<std::string, JobEntry> jobs_;
  // Names of jobs.
  std::map<std::string, std::string> requests_;
  std::map<std::string, std::string> aliases_;
  JobIndex index_;
  int64_t last_serial_ = 0;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_JOB_TABLE_H_
