// The parts of a job's specification that the scheduler needs.
#ifndef COMERA_SERVER_SCHEDULER_JOB_DEMAND_H_
#define COMERA_SERVER_SCHEDULER_JOB_DEMAND_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/job.pb.h"

namespace comera::server {

struct JobDemand {
  v1::ResourceSpec::Device device = v1::ResourceSpec::ANY;
  int32_t priority = 0;
  int32_t processes = 1;
  // All numbers of processes that every batch size is divisible by, descending;
  // empty for a job that is not elastic.
  std::vector<int32_t> sizes;
  bool preemptible = true;
  // Whether it needs workers that run programs of users' own.
  bool program = false;
  // Infinite if there is none.
  absl::Duration time_limit = absl::InfiniteDuration();
  std::string queue;
};

JobDemand DemandOf(const v1::JobSpec& spec);

// Numbers of processes below `processes` that the job could be asked to run
// with, the largest first; at most `limit`.
std::vector<int32_t> SmallerSizes(const v1::JobSpec& spec, int32_t processes,
                                  size_t limit);

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_JOB_DEMAND_H_
