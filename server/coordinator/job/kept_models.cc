// Pins models and gives them aliases.
#include "server/coordinator/job/kept_models.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/resource_names.h"

namespace comera::server {
namespace {

constexpr int kMaxAliases = 16;

struct Found {
  JobEntry* entry = nullptr;
  v1::Artifact* model = nullptr;
};

absl::StatusOr<Found> FindModel(const std::string& name, JobTable* jobs) {
  const auto ids = ParseArtifactName(name);
  JobEntry* entry = ids ? jobs->Find(JobName(ids->first)) : nullptr;
  if (entry != nullptr) {
    for (v1::Artifact& model : *entry->mutable_job().mutable_models()) {
      if (model.name() == name) return Found{entry, &model};
    }
  }
  return absl::NotFoundError(absl::StrCat("no model ", name));
}

bool Has(const v1::Artifact& model, const std::string& alias) {
  const auto& all = model.aliases();
  return std::find(all.begin(), all.end(), alias) != all.end();
}

// Removes the alias from the model that has it, and returns that model's job.
// Null: no model has it.
JobEntry* Detach(const std::string& alias, JobTable* jobs, Operation* op) {
  const JobEntry* const holder = jobs->FindAlias(alias);
  if (holder == nullptr) return nullptr;
  JobEntry* const found = jobs->Find(holder->name());
  for (v1::Artifact& model : *found->mutable_job().mutable_models()) {
    if (!Has(model, alias)) continue;
    auto& all = *model.mutable_aliases();
    all.erase(std::find(all.begin(), all.end(), alias));
  }
  jobs->NoteAlias(alias, nullptr);
  found->MarkChanged(op);
  return found;
}

}  // namespace

absl::Status CheckMayGo(const v1::Artifact& model) {
  if (model.pinned()) {
    return absl::FailedPreconditionError(
        absl::StrCat(model.name(), " is pinned; unpin it first"));
  }
  if (!model.aliases().empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(model.name(), " has the alias ", model.aliases(0),
                     "; remove it, or let it stand for another model, first"));
  }
  return absl::OkStatus();
}

bool KeepsModels(const v1::Job& job) {
  return std::any_of(
      job.models().begin(), job.models().end(),
      [](const v1::Artifact& model) { return !CheckMayGo(model).ok(); });
}

absl::StatusOr<JobEntry*> SetPinned(const std::string& model, bool pinned,
                                    JobTable* jobs, Operation* op) {
  ASSIGN_OR_RETURN(const Found found, FindModel(model, jobs));
  if (found.model->pinned() != pinned) {
    found.model->set_pinned(pinned);
    found.entry->MarkChanged(op);
  }
  return found.entry;
}

absl::StatusOr<JobEntry*> SetAlias(const std::string& alias,
                                   const std::string& model, JobTable* jobs,
                                   Operation* op) {
  ASSIGN_OR_RETURN(const Found found, FindModel(model, jobs));
  if (Has(*found.model, alias)) return found.entry;
  if (found.model->aliases_size() >= kMaxAliases) {
    return absl::ResourceExhaustedError(
        absl::StrCat(model, " has ", kMaxAliases, " aliases"));
  }
  Detach(alias, jobs, op);
  found.model->add_aliases(alias);
  jobs->NoteAlias(alias, found.entry);
  std::sort(found.model->mutable_aliases()->begin(),
            found.model->mutable_aliases()->end());
  found.entry->MarkChanged(op);
  return found.entry;
}

absl::StatusOr<JobEntry*> RemoveAlias(const std::string& alias, JobTable* jobs,
                                      Operation* op) {
  JobEntry* const entry = Detach(alias, jobs, op);
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrCat("no alias ", alias));
  }
  return entry;
}

}  // namespace comera::server
