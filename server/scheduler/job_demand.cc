// Reads what the scheduler needs from a job's specification.
#include "server/scheduler/job_demand.h"

#include <algorithm>
#include <cstdint>

#include "proto/model_family.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

// Whether so many processes can share out all batches, and compute their shares
// in parts.
bool Divides(const v1::JobSpec& spec, int32_t processes) {
  const v1::TrainingSpec& training = spec.training();
  const int64_t parts = processes * std::max<int64_t>(1, training.accumulate());
  return training.batch_size() % parts == 0 &&
         std::all_of(training.phases().begin(), training.phases().end(),
                     [&](const v1::Phase& phase) {
                       return phase.batch_size() % parts == 0;
                     });
}

// Where any device would do, one kind may still be unable to run the job.
v1::ResourceSpec::Device DeviceFor(const v1::JobSpec& spec) {
  const v1::ResourceSpec::Device asked = spec.resources().device();
  if (asked != v1::ResourceSpec::ANY || spec.has_program()) return asked;
  if (HeadWidth(spec.model()) > kMostGpuHeadWidth) return v1::ResourceSpec::CPU;
  if (spec.training().precision() == v1::TrainingSpec::TF32) {
    return v1::ResourceSpec::GPU;
  }
  return asked;
}

}  // namespace

JobDemand DemandOf(const v1::JobSpec& spec) {
  const v1::ResourceSpec& resources = spec.resources();
  JobDemand demand;
  demand.device = DeviceFor(spec);
  demand.priority = spec.priority();
  demand.processes = std::max(1, resources.processes());
  if (resources.min_processes() > 0 &&
      resources.min_processes() < demand.processes) {
    demand.sizes.push_back(demand.processes);
    for (int32_t processes = demand.processes - 1;
         processes >= resources.min_processes(); --processes) {
      if (Divides(spec, processes)) demand.sizes.push_back(processes);
    }
    if (demand.sizes.size() == 1) demand.sizes.clear();
  }
  demand.program = spec.has_program();
  demand.preemptible = !spec.has_preemptible() || spec.preemptible();
  if (spec.has_time_limit()) {
    const absl::Duration limit = FromProtoDuration(spec.time_limit());
    if (limit > absl::ZeroDuration()) demand.time_limit = limit;
  }
  demand.queue = spec.queue();
  return demand;
}

std::vector<int32_t> SmallerSizes(const v1::JobSpec& spec, int32_t processes,
                                  size_t limit) {
  std::vector<int32_t> sizes;
  int32_t below = processes;
  for (int32_t size = processes - 1; size >= 1 && sizes.size() < limit;
       --size) {
    // A few sizes are enough: each is at most two thirds of the last.
    if (!Divides(spec, size) || size > below * 2 / 3) continue;
    sizes.push_back(size);
    below = size;
  }
  return sizes;
}

}  // namespace comera::server
