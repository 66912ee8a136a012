#ifndef COMERA_SERVER_COORDINATOR_WORKER_CLUSTER_COUNTS_H_
#define COMERA_SERVER_COORDINATOR_WORKER_CLUSTER_COUNTS_H_

#include <cstdint>
#include <map>
#include <string>

namespace comera::server {

// The numbers of workers and slots.
struct ClusterCounts {
  // Workers by WorkerSummary::Service; LOST are those that are not connected.
  std::map<std::string, int64_t> workers;
  struct Slots {
    int64_t total = 0;
    // Slots with a member, and slots that cannot take one. All three count the
    // slots of connected workers.
    int64_t busy = 0;
    int64_t unfit = 0;
  };
  // Most workers are silent together, so that none is given up for it.
  bool mass_silence = false;
  // Slots by kind of device, cpu or gpu.
  std::map<std::string, Slots> slots;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_WORKER_CLUSTER_COUNTS_H_
