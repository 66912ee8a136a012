#ifndef COMERA_WORKER_TRAINER_LOOP_DATA_AGREEMENT_H_
#define COMERA_WORKER_TRAINER_LOOP_DATA_AGREEMENT_H_

#include <string>

#include "absl/status/status.h"
#include "worker/collective/communicator.h"

namespace comera::trainer {

// Compares `digest`, the SHA-256 of a member's data in hexadecimal
// (state/data_digest.h), across the gang. This is a collective call: every
// member must make it, and all get the same answer. DataLoss: the digests
// differ; the message lists the members whose data differ from member 0's. A
// null communicator means a gang of one.
absl::Status CheckSameData(collective::Communicator* communicator,
                           const std::string& digest);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_DATA_AGREEMENT_H_
