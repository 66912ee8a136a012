// The files of an upload.
#ifndef COMERA_CLIENT_LOCAL_FILES_H_
#define COMERA_CLIENT_LOCAL_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace comera::client {

struct LocalFile {
  // On this machine.
  std::string source;
  // In the dataset.
  std::string path;
  int64_t size = 0;
};

struct LocalFiles {
  // By path.
  std::vector<LocalFile> files;
  // Hidden files and folders, links and special files below folders: left out.
  int64_t left_out = 0;
};

// What the arguments name: files by their name, folders with all below them by
// the path below the folder. NotFound; InvalidArgument: two files of one path,
// or a name that cannot be one in a dataset.
absl::StatusOr<LocalFiles> FindLocalFiles(
    const std::vector<std::string>& arguments);

}  // namespace comera::client

#endif  // COMERA_CLIENT_LOCAL_FILES_H_
