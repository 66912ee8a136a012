#ifndef COMERA_COMMON_OUT_OF_MEMORY_H_
#define COMERA_COMMON_OUT_OF_MEMORY_H_

#include <cstdint>

namespace comera {

// The number of processes that the kernel has killed so far for want of memory,
// in this process's control group and below (cgroup v2) or on this machine; 0
// if neither count can be read.
int64_t OutOfMemoryKills();

}  // namespace comera

#endif  // COMERA_COMMON_OUT_OF_MEMORY_H_
