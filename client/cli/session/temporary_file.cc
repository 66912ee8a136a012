// Creates a private temporary file and removes it.

#include "client/cli/session/temporary_file.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "common/files.h"
#include "common/status_macros.h"

namespace comera::client {

absl::StatusOr<std::unique_ptr<TemporaryFile>> TemporaryFile::Create(
    const std::string& contents) {
  std::error_code error;
  std::string path = std::filesystem::temp_directory_path(error).string() +
                     "/comera-task-XXXXXX";
  const int file = mkstemp(path.data());
  if (file < 0) return ErrnoStatus(errno, path);
  close(file);
  std::unique_ptr<TemporaryFile> made(new TemporaryFile(path));
  RETURN_IF_ERROR(WriteFileAtomically(path, contents));
  return made;
}

TemporaryFile::~TemporaryFile() { std::remove(path_.c_str()); }

}  // namespace comera::client
