// Decides which uploads and logs are accepted, and removes models.
#include "server/coordinator/job/job_artifacts.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/job_state.h"
#include "proto/resource_names.h"
#include "server/coordinator/job/kept_models.h"

namespace comera::server {

absl::StatusOr<const JobEntry*> FindUploader(
    const v1::UploadArtifactHeader& header, const std::string& worker,
    const JobTable& jobs) {
  const auto ids = ParseArtifactName(header.artifact());
  if (!ids) {
    return absl::InvalidArgumentError(
        absl::StrCat("artifact: malformed name \"", header.artifact(), "\""));
  }
  const JobEntry* entry = jobs.Find(JobName(ids->first));
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrCat("no job ", JobName(ids->first)));
  }
  if (!entry->active() || header.attempt() != entry->attempt().number()) {
    return absl::AbortedError(absl::StrCat(
        entry->name(), " has no running attempt ", header.attempt()));
  }
  const std::vector<GangMember>& members = entry->attempt().members();
  if (!worker.empty() && (members.empty() || members[0].worker() != worker)) {
    return absl::PermissionDeniedError(absl::StrCat(
        "member 0 of ", entry->name(), " does not run on ", worker));
  }
  for (const UploadedFile& upload : entry->attempt().record().uploads()) {
    if (upload.artifact() == header.artifact() &&
        upload.file().path() == header.file().path() &&
        upload.file().sha256() != header.file().sha256()) {
      return absl::FailedPreconditionError(
          absl::StrCat(header.artifact(), " has its file ",
                       header.file().path(), " already"));
    }
  }
  if (entry->attempt().record().uploads_size() >= Attempt::kMaxUploads) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "more than ", Attempt::kMaxUploads, " files were uploaded"));
  }
  return entry;
}

absl::StatusOr<JobEntry*> RemoveModel(const std::string& name, JobTable* jobs,
                                      Operation* op) {
  const auto ids = ParseArtifactName(name);
  JobEntry* entry = ids ? jobs->Find(JobName(ids->first)) : nullptr;
  if (entry == nullptr) {
    return absl::NotFoundError(absl::StrCat("no model ", name));
  }
  auto& models = *entry->mutable_job().mutable_models();
  for (int i = 0; i < models.size(); ++i) {
    if (models[i].name() != name) continue;
    // What a job exports belongs to its attempt until it has ended.
    if (!IsFinal(entry->state())) {
      return absl::FailedPreconditionError(
          absl::StrCat(entry->name(), " has not finished"));
    }
    RETURN_IF_ERROR(CheckMayGo(models[i]));
    models.DeleteSubrange(i, 1);
    entry->MarkChanged(op);
    return entry;
  }
  return absl::NotFoundError(absl::StrCat("no model ", name));
}

bool IsOwnLog(const v1::LogChunk& chunk, const std::string& worker,
              absl::Time now, const JobTable& jobs) {
  const JobEntry* entry = jobs.Find(chunk.job());
  return entry != nullptr && chunk.offset() >= 0 &&
         entry->attempt().RanOn(worker, chunk.attempt(), chunk.rank(), now);
}

}  // namespace comera::server
