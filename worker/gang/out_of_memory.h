#ifndef COMERA_WORKER_GANG_OUT_OF_MEMORY_H_
#define COMERA_WORKER_GANG_OUT_OF_MEMORY_H_

#include <cstdint>

namespace comera::worker {

// How many processes the kernel has killed for want of memory so far, in this
// process's control group and below (version 2) or on this machine; 0 if
// neither tells.
int64_t OutOfMemoryKills();

}  // namespace comera::worker

#endif  // COMERA_WORKER_GANG_OUT_OF_MEMORY_H_
