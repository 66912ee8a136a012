#ifndef COMERA_CLIENT_CLI_SESSION_TEMPORARY_FILE_H_
#define COMERA_CLIENT_CLI_SESSION_TEMPORARY_FILE_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace comera::client {

// A temporary file that is removed with this object.
class TemporaryFile {
 public:
  // Errors of ErrnoStatus.
  static absl::StatusOr<std::unique_ptr<TemporaryFile>> Create(
      const std::string& contents);
  ~TemporaryFile();
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SESSION_TEMPORARY_FILE_H_
