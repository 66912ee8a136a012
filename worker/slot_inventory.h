#ifndef COMERA_WORKER_SLOT_INVENTORY_H_
#define COMERA_WORKER_SLOT_INVENTORY_H_

#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/worker_service.pb.h"

namespace comera::worker {

// Cores that this process may run on.
int UsableCores();

// The rooms for ranks that this machine offers: `count` CPU slots, or one per
// two cores (at least one) if `count` is 0. InvalidArgument: negative, or more
// than 1024.
absl::StatusOr<std::vector<v1::Slot>> TakeInventory(int count, int cores);

// Threads for one rank: what its job asks for, else the cores over the slots.
int ThreadsPerRank(const v1::JobSpec& spec, int cores, int slots);

}  // namespace comera::worker

#endif  // COMERA_WORKER_SLOT_INVENTORY_H_
