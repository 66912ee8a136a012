// Finds the local files of an upload.
#ifndef COMERA_CLIENT_LOCAL_FILES_H_
#define COMERA_CLIENT_LOCAL_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace comera::client {

// One file to upload.
struct LocalFile {
  // The path on this machine.
  std::string source;
  // The path in the dataset.
  std::string path;
  int64_t size = 0;
};

// The files that a command line names.
struct LocalFiles {
  // Sorted by path.
  std::vector<LocalFile> files;
  // The number of hidden, linked or special files that were skipped below
  // folders.
  int64_t left_out = 0;
};

// Finds the files that the arguments name. A file gets its own name as its path
// in the dataset; a folder gives all files below it, with their paths below the
// folder. NotFound. InvalidArgument: two files would have one path, or a name
// is not allowed in a dataset.
absl::StatusOr<LocalFiles> FindLocalFiles(
    const std::vector<std::string>& arguments);

}  // namespace comera::client

#endif  // COMERA_CLIENT_LOCAL_FILES_H_
