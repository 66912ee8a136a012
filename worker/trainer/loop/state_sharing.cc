// Broadcasts the training state that a gang begins with, and the model that it
// ends with.
#include "worker/trainer/loop/state_sharing.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

absl::Status Broadcast(collective::Communicator& gang, absl::Span<char> bytes) {
  return WithFailureClass(gang.Broadcast(bytes, /*root=*/0),
                          v1::COLLECTIVE_HANG);
}

absl::StatusOr<std::string> SerializeForOthers(TrainingState* state) {
  std::optional<NearestModel> nearest;
  nearest.swap(state->nearest);
  absl::StatusOr<std::string> bytes = state->Serialize();
  nearest.swap(state->nearest);
  return bytes;
}

// Member 0's bytes become those of all.
absl::Status ShareBytes(collective::Communicator& gang, std::string* bytes) {
  int64_t size = static_cast<int64_t>(bytes->size());
  RETURN_IF_ERROR(Broadcast(
      gang, absl::MakeSpan(reinterpret_cast<char*>(&size), sizeof(size))));
  bytes->resize(size);
  return Broadcast(gang, absl::MakeSpan(bytes->data(), bytes->size()));
}

}  // namespace

absl::Status ShareState(collective::Communicator* communicator,
                        const std::string& fingerprint, TrainingState* state) {
  if (communicator == nullptr || communicator->world_size() == 1) {
    return absl::OkStatus();
  }
  std::string bytes;
  if (communicator->rank() == 0) {
    ASSIGN_OR_RETURN(bytes, SerializeForOthers(state));
  }
  RETURN_IF_ERROR(ShareBytes(*communicator, &bytes));
  if (communicator->rank() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(*state, TrainingState::Parse(bytes));
  if (state->fingerprint == fingerprint) return absl::OkStatus();
  return absl::InternalError("member 0 trains another specification");
}

absl::StatusOr<NearestModel> ShareNearest(
    collective::Communicator* communicator,
    const std::optional<NearestModel>& nearest) {
  const bool alone = communicator == nullptr || communicator->world_size() == 1;
  const int member = alone ? 0 : communicator->rank();
  if (member == 0 && !nearest.has_value()) {
    return absl::FailedPreconditionError("there is no nearest model");
  }
  if (alone) return *nearest;
  // The model travels as the only part of a training state.
  std::string bytes;
  if (member == 0) {
    TrainingState carrier;
    carrier.nearest = nearest;
    ASSIGN_OR_RETURN(bytes, carrier.Serialize());
  }
  RETURN_IF_ERROR(ShareBytes(*communicator, &bytes));
  if (member == 0) return *nearest;
  ASSIGN_OR_RETURN(TrainingState carrier, TrainingState::Parse(bytes));
  if (carrier.nearest.has_value()) return *std::move(carrier.nearest);
  return absl::InternalError("member 0 sent no model");
}

}  // namespace comera::trainer
