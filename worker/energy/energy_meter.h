#ifndef COMERA_WORKER_ENERGY_ENERGY_METER_H_
#define COMERA_WORKER_ENERGY_ENERGY_METER_H_

namespace comera::energy {

// Counts the energy that some hardware of this machine uses, whoever makes it
// work. Not thread-safe.
class EnergyMeter {
 public:
  virtual ~EnergyMeter() = default;

  // The joules used since the meter was opened; they never fall. Counters of
  // the hardware wrap around after about half an hour under load: who does not
  // ask that often misses a part. A counter that cannot be read any more counts
  // as one that stands still.
  virtual double Joules() = 0;
};

}  // namespace comera::energy

#endif  // COMERA_WORKER_ENERGY_ENERGY_METER_H_
