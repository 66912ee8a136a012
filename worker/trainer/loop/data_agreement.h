#ifndef COMERA_WORKER_TRAINER_LOOP_DATA_AGREEMENT_H_
#define COMERA_WORKER_TRAINER_LOOP_DATA_AGREEMENT_H_

#include <string>

#include "absl/status/status.h"
#include "worker/collective/communicator.h"

namespace comera::trainer {

// Compares what names the data of each member (state/data_digest.h: a SHA-256
// in hexadecimal digits) over the gang; a collective, in which all members get
// the same answer. DataLoss: they differ, and the message names the members
// whose data are not member 0's. A null communicator is a gang of one.
absl::Status CheckSameData(collective::Communicator* communicator,
                           const std::string& digest);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_DATA_AGREEMENT_H_
