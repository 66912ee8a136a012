#ifndef COMERA_WORKER_CHECKPOINT_COPY_TROUBLES_H_
#define COMERA_WORKER_CHECKPOINT_COPY_TROUBLES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "comera/v1/worker_service.pb.h"

namespace comera::worker {

// Remembers which jobs' checkpoints are not copied, and why, until a copy
// succeeds: the coordinator is told as long as it lasts. Each sentence stays
// the same while the trouble does. Not thread-safe.
class CopyTroubles {
 public:
  // How a copy to another worker's memory ended.
  struct ReplicaResult {
    std::string worker;
    absl::Status status;
  };

  // All copies of a state of the attempt to other workers have been tried.
  // There is a trouble where one does not fit (ResourceExhausted), or where
  // none arrived. Returns whether the job's troubles have changed.
  bool OnReplicas(const std::string& job, int64_t attempt,
                  const std::vector<ReplicaResult>& results);
  // The same for the store.
  bool OnStore(const std::string& job, int64_t attempt,
               const absl::Status& status);
  void Forget(const std::string& job) { jobs_.erase(job); }

  // At most two for each job, and a thousand in all.
  std::vector<v1::MemberTrouble> List() const;

 private:
  struct Trouble {
    v1::FailureClass failure_class = v1::CHECKPOINT_UNREACHABLE;
    std::string message;  // empty: none
  };
  struct Job {
    int64_t attempt = 0;
    Trouble replicas;
    Trouble store;
  };

  // The entry of the attempt, which displaces that of an earlier one; null if
  // there is one of a later attempt.
  Job* Find(const std::string& job, int64_t attempt);
  // Returns whether the message has changed.
  bool Set(const std::string& job, Trouble Job::*which, int64_t attempt,
           Trouble trouble);

  std::map<std::string, Job> jobs_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_CHECKPOINT_COPY_TROUBLES_H_
