#ifndef COMERA_WORKER_SESSION_SLOT_INVENTORY_H_
#define COMERA_WORKER_SESSION_SLOT_INVENTORY_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/worker_service.pb.h"

namespace comera::worker {

// The number of cores that this process may run on.
int UsableCores();

// The GPUs among `found` that the worker offers. `wanted` is "auto" for all,
// "none", or a number N for the first N. `visible` is the value of
// CUDA_VISIBLE_DEVICES: unless it is empty, only the GPUs that it names, by
// index or by (the beginning of) a UUID, are offered. InvalidArgument: `wanted`
// is something else, or more than there are.
absl::StatusOr<std::vector<v1::Gpu>> ChooseGpus(
    std::string_view wanted, std::string_view visible,
    const std::vector<v1::Gpu>& found);

// The slots that this machine offers to members: one per GPU, then `count` CPU
// slots. A `count` of 0 means one per two cores (at least one) on a machine
// without GPUs, else none. InvalidArgument: `count` is negative or above 1024.
absl::StatusOr<std::vector<v1::Slot>> ListSlots(
    int count, int cores, const std::vector<v1::Gpu>& gpus = {});

// The threads of one member: the number its job asks for, else the cores
// divided by the slots.
int ThreadsPerProcess(const v1::JobSpec& spec, int cores, int slots);

}  // namespace comera::worker

#endif  // COMERA_WORKER_SESSION_SLOT_INVENTORY_H_
