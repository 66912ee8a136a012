// Broadcasts the training state that a gang begins with.
#include "worker/trainer/loop/state_sharing.h"

#include <cstdint>
#include <optional>

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
  int64_t size = static_cast<int64_t>(bytes.size());
  RETURN_IF_ERROR(
      Broadcast(*communicator,
                absl::MakeSpan(reinterpret_cast<char*>(&size), sizeof(size))));
  bytes.resize(size);
  RETURN_IF_ERROR(
      Broadcast(*communicator, absl::MakeSpan(bytes.data(), bytes.size())));
  if (communicator->rank() == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(*state, TrainingState::Parse(bytes));
  if (state->fingerprint == fingerprint) return absl::OkStatus();
  return absl::InternalError("member 0 trains another specification");
}

}  // namespace comera::trainer
