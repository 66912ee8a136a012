#ifndef COMERA_WORKER_ENERGY_OPEN_ENERGY_METER_H_
#define COMERA_WORKER_ENERGY_OPEN_ENERGY_METER_H_

#include <memory>
#include <string>

#include "worker/energy/energy_meter.h"

namespace comera::energy {

// The hardware whose energy is to be counted.
struct EnergySources {
  // All processors of this machine.
  bool processors = false;
  // A GPU by UUID or number; empty: none.
  std::string gpu;

  // Where the counters are found.
  std::string powercap = "/sys/class/powercap";
  std::string nvml = "libnvidia-ml.so.1";
};

// Opens a meter for all sources that can be read. Null: none can.
std::unique_ptr<EnergyMeter> OpenEnergyMeter(const EnergySources& sources);

}  // namespace comera::energy

#endif  // COMERA_WORKER_ENERGY_OPEN_ENERGY_METER_H_
