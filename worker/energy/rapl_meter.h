#ifndef COMERA_WORKER_ENERGY_RAPL_METER_H_
#define COMERA_WORKER_ENERGY_RAPL_METER_H_

#include <memory>
#include <string>

#include "worker/energy/energy_meter.h"

namespace comera::energy {

// Opens the counters of the processors (RAPL, as Linux shows them below
// `root`): every package with all its cores, and memory where the machine
// counts it separately. Null: there are none, or this process may not read
// them, as is usual for others than root.
std::unique_ptr<EnergyMeter> OpenRaplMeter(
    const std::string& root = "/sys/class/powercap");

}  // namespace comera::energy

#endif  // COMERA_WORKER_ENERGY_RAPL_METER_H_
