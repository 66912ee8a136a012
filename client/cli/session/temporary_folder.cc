// Creates a private temporary folder and removes it.

#include "client/cli/session/temporary_folder.h"

#include <errno.h>
#include <stdlib.h>

#include <filesystem>
#include <system_error>

#include "common/files.h"
#include "common/status_macros.h"

namespace comera::client {

absl::StatusOr<std::unique_ptr<TemporaryFolder>> TemporaryFolder::Create(
    const std::string& parent) {
  RETURN_IF_ERROR(MakeDirectories(parent));
  std::string path = parent + "/temporary-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return ErrnoStatus(errno, path);
  return std::unique_ptr<TemporaryFolder>(new TemporaryFolder(path));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

}  // namespace comera::client
