#ifndef COMERA_WORKER_SESSION_SLOT_INVENTORY_H_
#define COMERA_WORKER_SESSION_SLOT_INVENTORY_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/worker_service.pb.h"

namespace comera::worker {

// Cores that this process may run on.
int UsableCores();

// The GPUs that the worker offers, of those `found`: all (`wanted` "auto"),
// none
// ("none"), or the first so many. `visible` is CUDA_VISIBLE_DEVICES: only those
// that it names, by place or by UUID (its beginning suffices), are offered;
// empty: all. InvalidArgument: not one of these words, or more than there are.
absl::StatusOr<std::vector<v1::Gpu>> ChooseGpus(
    std::string_view wanted, std::string_view visible,
    const std::vector<v1::Gpu>& found);

// The rooms for ranks that this machine offers: one slot per GPU, then `count`
// CPU slots. A `count` of 0 means one per two cores (at least one) where there
// is no GPU, else none. InvalidArgument: negative, or more than 1024.
absl::StatusOr<std::vector<v1::Slot>> ListSlots(
    int count, int cores, const std::vector<v1::Gpu>& gpus = {});

// Threads for one rank: what its job asks for, else the cores over the slots.
int ThreadsPerProcess(const v1::JobSpec& spec, int cores, int slots);

}  // namespace comera::worker

#endif  // COMERA_WORKER_SESSION_SLOT_INVENTORY_H_
