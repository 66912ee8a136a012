#ifndef COMERA_SERVER_COORDINATOR_CLUSTER_COUNTS_H_
#define COMERA_SERVER_COORDINATOR_CLUSTER_COUNTS_H_

#include <cstdint>
#include <map>
#include <string>

namespace comera::server {

// The workers in numbers.
struct ClusterCounts {
  // By WorkerSummary::Service, and LOST: not connected.
  std::map<std::string, int64_t> workers;
  struct Slots {
    int64_t total = 0;
    // With a rank; that cannot take one. Of connected workers, as is total.
    int64_t busy = 0;
    int64_t unfit = 0;
  };
  // By kind of device, cpu or gpu.
  std::map<std::string, Slots> slots;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_CLUSTER_COUNTS_H_
