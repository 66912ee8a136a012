#ifndef COMERA_WORKER_TRAINER_LOOP_ENERGY_ACCOUNT_H_
#define COMERA_WORKER_TRAINER_LOOP_ENERGY_ACCOUNT_H_

#include "absl/status/status.h"
#include "worker/collective/communicator.h"
#include "worker/energy/energy_meter.h"

namespace comera::trainer {

// Adds up the energy that a job has used: that of earlier attempts, what this
// member's meter counts, and what the other members told of theirs. Not
// thread-safe.
class EnergyAccount {
 public:
  // Both may be null: then this machine tells nothing, and the member is the
  // whole gang. They must outlive this.
  EnergyAccount(energy::EnergyMeter* meter,
                collective::Communicator* communicator)
      : meter_(meter), communicator_(communicator) {}

  // The job had used so much before this attempt.
  void Begin(double joules) { before_ = joules; }

  // The joules so far, with those of the other members as of the last Share.
  double Joules() { return before_ + others_ + Own(); }

  // Tells the other members what was used here since the last time, and learns
  // the same of them; a collective.
  absl::Status Share();

 private:
  double Own() { return meter_ == nullptr ? 0 : meter_->Joules(); }

  energy::EnergyMeter* const meter_;
  collective::Communicator* const communicator_;
  double before_ = 0;
  double others_ = 0;
  double shared_ = 0;  // the part of Own() that the others know
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_ENERGY_ACCOUNT_H_
