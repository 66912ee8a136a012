#include "server/coordinator/attempt.h"

#include <algorithm>

namespace comera::server {

bool Ended(const AttemptMember& rank) {
  return rank.lost() || rank.phase() == v1::MemberStatus::EXITED;
}

bool IsWanted(const Attempt& attempt, const AttemptMember& rank) {
  return !attempt.stopping() && !Ended(rank);
}

bool AllEnded(const Attempt& attempt) {
  return std::all_of(attempt.members().begin(), attempt.members().end(), Ended);
}

bool AllStarted(const Attempt& attempt) {
  return std::all_of(attempt.members().begin(), attempt.members().end(),
                     [](const AttemptMember& rank) {
                       return rank.phase() == v1::MemberStatus::RUNNING ||
                              rank.phase() == v1::MemberStatus::EXITED;
                     });
}

bool HasResult(const Attempt& attempt) {
  return attempt.members_size() > 0 && attempt.members(0).has_result();
}

namespace {

bool IsStored(const v1::Artifact& model, const Attempt& attempt) {
  for (const v1::ArtifactFile& file : model.files()) {
    const bool stored =
        std::any_of(attempt.uploads().begin(), attempt.uploads().end(),
                    [&](const UploadedFile& upload) {
                      return upload.artifact() == model.name() &&
                             upload.file().path() == file.path() &&
                             upload.file().sha256() == file.sha256() &&
                             upload.file().size_bytes() == file.size_bytes();
                    });
    if (!stored) return false;
  }
  return model.files_size() > 0;
}

}  // namespace

bool ModelsAreStored(const Attempt& attempt) {
  const AttemptMember& rank = attempt.members(0);
  return (rank.model().name().empty() || IsStored(rank.model(), attempt)) &&
         std::all_of(rank.target_models().begin(), rank.target_models().end(),
                     [&](const v1::Artifact& model) {
                       return IsStored(model, attempt);
                     });
}

void AddUpload(const std::string& artifact, const v1::ArtifactFile& file,
               Attempt* attempt) {
  for (UploadedFile& upload : *attempt->mutable_uploads()) {
    if (upload.artifact() == artifact && upload.file().path() == file.path()) {
      *upload.mutable_file() = file;
      return;
    }
  }
  UploadedFile* upload = attempt->add_uploads();
  upload->set_artifact(artifact);
  *upload->mutable_file() = file;
}

}  // namespace comera::server
