#ifndef COMERA_WORKER_TRAINER_PROGRAM_MASTER_ADDRESS_H_
#define COMERA_WORKER_TRAINER_PROGRAM_MASTER_ADDRESS_H_

#include <atomic>
#include <string>

#include "absl/status/statusor.h"
#include "worker/trainer/process/task.pb.h"

namespace comera::trainer {

// The address, host:port, at which the programs of a gang meet: a free port of
// the machine of member 0, which tells the others through the task's rendezvous
// folder. Nobody holds the port until the program binds it.
//
// Cancelled: `stop` became true while member 0 was awaited. DeadlineExceeded:
// it did not come. Unavailable: no port is free.
absl::StatusOr<std::string> MasterAddress(const TrainerTask& task,
                                          const std::atomic<bool>& stop);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_PROGRAM_MASTER_ADDRESS_H_
