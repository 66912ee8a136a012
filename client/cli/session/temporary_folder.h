#ifndef COMERA_CLIENT_CLI_SESSION_TEMPORARY_FOLDER_H_
#define COMERA_CLIENT_CLI_SESSION_TEMPORARY_FOLDER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace comera::client {

// A private folder that is removed with this object, and all that is in it.
class TemporaryFolder {
 public:
  // Makes one below `parent`, which is made if it is missing. Errors of
  // ErrnoStatus.
  static absl::StatusOr<std::unique_ptr<TemporaryFolder>> Create(
      const std::string& parent);
  ~TemporaryFolder();
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SESSION_TEMPORARY_FOLDER_H_
