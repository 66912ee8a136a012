#ifndef COMERA_SERVER_COORDINATOR_WORKER_WORKER_EXCLUSION_H_
#define COMERA_SERVER_COORDINATOR_WORKER_WORKER_EXCLUSION_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "comera/v1/job.pb.h"
#include "server/coordinator/operation/operation.h"
#include "server/coordinator/worker/worker_table.h"

namespace comera::server {

// Takes workers out of service after repeated hardware failures, until an
// operator resumes them. At most one in four workers is excluded, for what many
// workers have in common is not their fault. Not thread-safe.
class WorkerExclusion {
 public:
  // `workers` must outlive it. A worker is excluded after that many failures
  // within `window`; 0 means never.
  WorkerExclusion(int32_t after_failures, absl::Duration window,
                  WorkerTable* workers)
      : after_failures_(after_failures), window_(window), workers_(workers) {}

  // Counts the failure of a member of `job` that ran on the worker, if its
  // class points to the hardware.
  void Count(const std::string& job, const std::string& worker,
             const v1::Failure& failure, Operation* op);

 private:
  bool MayExcludeOneMore() const;

  const int32_t after_failures_;
  const absl::Duration window_;
  WorkerTable* const workers_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_WORKER_WORKER_EXCLUSION_H_
