// Checks start_from, and turns an early stage into a checkpoint.
#include "server/coordinator/job/start_from.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/resource_names.h"
#include "server/rpc/proto_time.h"

namespace comera::server {

absl::Status CheckStartFrom(const v1::JobSpec& spec, const std::string& user,
                            const v1::Job* source) {
  if (!spec.has_start_from()) return absl::OkStatus();
  const std::string& name = spec.start_from().checkpoint();
  if (source == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("start_from.checkpoint: there is no job of ", name));
  }
  if (source->user() != user && source->spec().queue() != spec.queue()) {
    return absl::PermissionDeniedError(
        absl::StrCat("start_from.checkpoint: ", source->name(),
                     " is somebody else's, in queue ", source->spec().queue()));
  }
  for (const v1::Checkpoint& checkpoint : source->checkpoints()) {
    if (checkpoint.name() == name) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("start_from.checkpoint: ", name, " is not kept",
                   source->checkpoints().empty()
                       ? ", nor is any other of that job"
                       : absl::StrCat("; the newest that is kept is ",
                                      source->checkpoints().rbegin()->name())));
}

std::optional<v1::TrainingStateKey> FindStart(const v1::JobSpec& spec,
                                              const v1::Job* source) {
  const std::string& name = spec.start_from().checkpoint();
  const auto start = ParseCheckpointName(name);
  if (!start) return std::nullopt;
  v1::TrainingStateKey key;
  key.set_step(start->second);
  if (source == nullptr) return key;
  for (const v1::Checkpoint& checkpoint : source->checkpoints()) {
    if (checkpoint.name() != name) continue;
    if (checkpoint.has_file()) return std::nullopt;
    key.set_attempt(checkpoint.attempt());
  }
  return key;
}

bool IsEarlyStage(const v1::Artifact& artifact) {
  const auto ids = ParseArtifactName(artifact.name());
  return ids && ids->second == kEarlyStageArtifact &&
         artifact.files_size() == 1 &&
         artifact.files(0).path() == kTrainingStateFile;
}

void AddEarlyStage(const v1::Artifact& artifact, int64_t step, absl::Time now,
                   v1::Job* job) {
  v1::Checkpoint& checkpoint = *job->add_checkpoints();
  checkpoint.set_name(CheckpointName(*ParseJobName(job->name()), step));
  checkpoint.set_step(step);
  checkpoint.set_size_bytes(artifact.files(0).size_bytes());
  *checkpoint.mutable_create_time() = ToTimestamp(now);
  checkpoint.set_durable(true);
  checkpoint.set_stage(v1::EARLY);
  *checkpoint.mutable_file() = artifact.files(0);
}

}  // namespace comera::server
