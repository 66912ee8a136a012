// Compares uploads of models with the quotas and with the room on the disk.
#include "server/host/model_uploads.h"

#include "absl/strings/str_cat.h"
#include "server/rpc/user_quota.h"

namespace comera::server {

absl::Status ModelUploads::Check(const UploadRoom& room, int64_t bytes) const {
  const auto of_user = by_user_.find(room.user);
  const int64_t user_used =
      room.user_used + (of_user == by_user_.end() ? 0 : of_user->second);
  if (room.user_limit > 0 && bytes > room.user_limit - user_used) {
    return OverQuota(room.user, user_used, "bytes of models", room.user_limit,
                     "user_model_bytes", "remove models or delete jobs");
  }
  const int64_t used = room.used + total_;
  if (room.limit > 0 && bytes > room.limit - used) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "all models have ", used, " bytes, of at most ", room.limit,
        " (--model_quota_bytes of the server): remove models or delete jobs"));
  }
  return room.disk == nullptr ? absl::OkStatus() : room.disk->CheckRoom(bytes);
}

absl::Status ModelUploads::Add(const UploadRoom& room, int64_t bytes) {
  const absl::Status status = Check(room, bytes);
  if (!status.ok()) return status;
  total_ += bytes;
  by_user_[room.user] += bytes;
  return absl::OkStatus();
}

void ModelUploads::Remove(const std::string& user, int64_t bytes) {
  if (bytes == 0) return;
  total_ -= bytes;
  const auto found = by_user_.find(user);
  found->second -= bytes;
  if (found->second == 0) by_user_.erase(found);
}

}  // namespace comera::server
