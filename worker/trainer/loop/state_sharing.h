#ifndef COMERA_WORKER_TRAINER_LOOP_STATE_SHARING_H_
#define COMERA_WORKER_TRAINER_LOOP_STATE_SHARING_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/collective/communicator.h"
#include "worker/trainer/state/training_state.h"

namespace comera::trainer {

// Gives member 0's state to all members of a gang, but for the nearest model:
// only member 0 exports. A collective. `communicator` may be null (one member).
//
// Errors: those of the communicator, with the class COLLECTIVE_HANG; Internal:
// the state is not one of the specification with this fingerprint.
absl::Status ShareState(collective::Communicator* communicator,
                        const std::string& fingerprint, TrainingState* state);

// Returns member 0's nearest model on all members. A collective; on the others
// `nearest` does not matter. FailedPrecondition: there is none; other errors as
// above.
absl::StatusOr<NearestModel> ShareNearest(
    collective::Communicator* communicator,
    const std::optional<NearestModel>& nearest);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_LOOP_STATE_SHARING_H_
