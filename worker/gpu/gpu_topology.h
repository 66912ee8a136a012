// Describes in words how GPUs are connected.
#ifndef COMERA_WORKER_GPU_GPU_TOPOLOGY_H_
#define COMERA_WORKER_GPU_GPU_TOPOLOGY_H_

#include <string>
#include <vector>

namespace comera::worker {

// Describes the links from one GPU to the others. `ways` has one entry per GPU,
// "" for itself and where unknown: ("", "NVLink", "NVLink", "PCIe switch")
// becomes "NVLink to 1, 2; PCIe switch to 3".
std::string DescribeTopology(const std::vector<std::string>& ways);

}  // namespace comera::worker

#endif  // COMERA_WORKER_GPU_GPU_TOPOLOGY_H_
