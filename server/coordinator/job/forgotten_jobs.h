#ifndef COMERA_SERVER_COORDINATOR_JOB_FORGOTTEN_JOBS_H_
#define COMERA_SERVER_COORDINATOR_JOB_FORGOTTEN_JOBS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "server/store/job_store.h"

namespace comera::server {

// The jobs that have run and that this store has forgotten, so that what they
// left with workers and in the shared store may go, however late it is found
// and whatever was restarted meanwhile.
//
// A job is here only if this very store has deleted it. A store that was
// restored from an older backup has the jobs that were deleted since, and has
// never heard of those that were submitted since: neither is here, and what
// they left stays. No clock is asked. Of more than `most` jobs the earliest are
// dropped, and what is found of those later stays as well. Not thread-safe.
class ForgottenJobs {
 public:
  static constexpr char kDocumentKind[] = "forgotten_job";
  static constexpr size_t kMost = 100'000;

  explicit ForgottenJobs(size_t most = kMost) : most_(most) {}

  // Takes over the stored documents of kDocumentKind. A damaged one is as if it
  // were not there.
  void Load(const std::vector<Document>& documents);
  // Notes the job, and appends what is to be stored.
  void Add(const std::string& job, std::vector<Document>* documents);
  bool Contains(const std::string& job) const {
    return numbers_.count(job) > 0;
  }

 private:
  const size_t most_;
  // Numbers grow in the order in which jobs are forgotten.
  std::map<int64_t, std::string> jobs_;
  std::map<std::string, int64_t> numbers_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_FORGOTTEN_JOBS_H_
