#ifndef COMERA_SERVER_HOST_MODEL_UPLOADS_H_
#define COMERA_SERVER_HOST_MODEL_UPLOADS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "server/host/disk_guard.h"

namespace comera::server {

// What an upload of a model found when it began.
struct UploadRoom {
  // The job's user, the bytes of its models and their limit. 0: any number.
  std::string user;
  int64_t user_used = 0;
  int64_t user_limit = 0;
  // The same of all users.
  int64_t used = 0;
  int64_t limit = 0;
  // Null: nobody watches the disk.
  DiskGuard* disk = nullptr;
};

// The bytes of models that are on their way in. Nothing is reserved: an upload
// that announces much and sends nothing takes no room from others, and one that
// runs into a limit ends there. One thread uses it.
class ModelUploads {
 public:
  // ResourceExhausted: so many bytes more do not fit.
  absl::Status Check(const UploadRoom& room, int64_t bytes) const;
  // The same, and counts them if they do.
  absl::Status Add(const UploadRoom& room, int64_t bytes);
  // They are stored, or gone.
  void Remove(const std::string& user, int64_t bytes);

 private:
  int64_t total_ = 0;
  std::map<std::string, int64_t> by_user_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_HOST_MODEL_UPLOADS_H_
