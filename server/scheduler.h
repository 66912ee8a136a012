#ifndef COMERA_SERVER_SCHEDULER_H_
#define COMERA_SERVER_SCHEDULER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "comera/v1/job.pb.h"

namespace comera::server {

// A worker that can take ranks now.
struct WorkerRoom {
  std::string worker;
  // Indices of free slots, ascending, and the number of all slots, by device.
  std::vector<int32_t> free_cpu;
  std::vector<int32_t> free_gpu;
  int32_t total_cpu = 0;
  int32_t total_gpu = 0;
  // Of all slots, those that are neither busy nor may take a rank.
  int32_t unfit_cpu = 0;
  int32_t unfit_gpu = 0;
};

// A queued job.
struct PendingJob {
  std::string job;
  int32_t priority = 0;
  // Order of acceptance.
  int64_t serial = 0;
  v1::ResourceSpec::Device device = v1::ResourceSpec::ANY;
  int32_t ranks = 1;
  // Workers of the job's last attempt, rank 0's first.
  std::vector<std::string> last_workers;
};

struct ClusterSnapshot {
  std::vector<WorkerRoom> workers;
  std::vector<PendingJob> jobs;
};

struct RankPlace {
  std::string worker;
  int32_t slot = 0;
};

// A whole gang, by rank.
struct Placement {
  std::string job;
  std::vector<RankPlace> ranks;
};

// A job that stays queued, and why, for people.
struct WaitingJob {
  std::string job;
  std::string reason;
};

struct Decision {
  std::vector<Placement> placements;
  std::vector<WaitingJob> waiting;
};

// Decides which queued jobs start now, and where. Stateless; thread-safe.
//
// Jobs are served by priority, then in order of acceptance. A job gets all its
// ranks or none, on as few workers as possible; the workers of its last attempt
// are taken when they have room for it. A job that fits the cluster but not its
// free slots holds back later jobs of that device, so that small jobs cannot
// starve a large one; a job larger than the cluster holds nobody back. Unfit
// slots take no job but count as part of the cluster: most are fit again soon.
class Scheduler {
 public:
  static Decision Decide(const ClusterSnapshot& snapshot);
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SCHEDULER_H_
