#ifndef COMERA_WORKER_ENERGY_NVML_METER_H_
#define COMERA_WORKER_ENERGY_NVML_METER_H_

#include <memory>
#include <string>

#include "worker/energy/energy_meter.h"

namespace comera::energy {

// Opens the counter of one GPU with NVML, which is loaded at run time. `gpu` is
// its UUID or its number. Null: there is no such library or GPU, or the GPU has
// no counter (before Volta, or a part of a GPU).
std::unique_ptr<EnergyMeter> OpenNvmlMeter(
    const std::string& gpu, const std::string& library = "libnvidia-ml.so.1");

}  // namespace comera::energy

#endif  // COMERA_WORKER_ENERGY_NVML_METER_H_
