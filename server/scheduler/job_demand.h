// What the scheduler needs to know of a job's specification, taken out once.
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
  int32_t ranks = 1;
  // Elastic jobs: all numbers of ranks that every batch divides by, descending.
  std::vector<int32_t> sizes;
  bool preemptible = true;
  // Infinite: none.
  absl::Duration time_limit = absl::InfiniteDuration();
  std::string queue;
};

JobDemand DemandOf(const v1::JobSpec& spec);

// Numbers of ranks below `ranks` that the job could be asked to run with, most
// first; at most `limit`.
std::vector<int32_t> SmallerSizes(const v1::JobSpec& spec, int32_t ranks,
                                  size_t limit);

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_JOB_DEMAND_H_
