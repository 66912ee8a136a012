// Models of finished jobs.
#include "absl/strings/str_cat.h"
#include "proto/job_state.h"
#include "proto/resource_names.h"
#include "server/coordinator/coordinator.h"

namespace comera::server {

absl::StatusOr<v1::Job> Coordinator::RemoveModel(const std::string& name,
                                                 absl::Time now,
                                                 Effects* effects) {
  const auto ids = ParseArtifactName(name);
  JobEntry* entry = ids ? jobs_.Find(JobName(ids->first)) : nullptr;
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrCat("no model ", name));
  }
  auto& models = *entry->job().mutable_models();
  for (int i = 0; i < models.size(); ++i) {
    if (models[i].name() != name) continue;
    // What a job exports belongs to its attempt until it has ended.
    if (!IsFinal(entry->job().state())) {
      return absl::FailedPreconditionError(
          absl::StrCat(entry->job().name(), " has not finished"));
    }
    models.DeleteSubrange(i, 1);
    Change(*entry);
    Finish(now, effects);
    return entry->job();
  }
  return absl::NotFoundError(absl::StrCat("no model ", name));
}

}  // namespace comera::server
