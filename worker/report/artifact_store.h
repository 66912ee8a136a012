#ifndef COMERA_WORKER_REPORT_ARTIFACT_STORE_H_
#define COMERA_WORKER_REPORT_ARTIFACT_STORE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace comera::worker {

// A store of files, shared by all workers, that survives the loss of a machine.
//
// Names are relative paths of [A-Za-z0-9._-] parts that do not begin with a
// dot. A file is there whole or not at all, and is verified when read.
// Thread-safe; several processes may use one store.
//
// Errors: InvalidArgument, the name is malformed; Unavailable, the store cannot
// be reached.
class ArtifactStore {
 public:
  virtual ~ArtifactStore() = default;

  // The file is durable on return and replaces one of the same name.
  // ResourceExhausted: the store is full.
  virtual absl::Status Put(const std::string& name,
                           std::string_view contents) = 0;
  // NotFound: there is no such file. DataLoss: it is damaged.
  virtual absl::StatusOr<std::string> Get(const std::string& name) = 0;
  // The names of the files in a folder, sorted; none if it does not exist.
  virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& folder) = 0;
  // Succeeds also if there is no such file.
  virtual absl::Status Delete(const std::string& name) = 0;
  // Deletes files below the folder that were not written for `age`.
  virtual absl::Status Expire(const std::string& folder,
                              absl::Duration age) = 0;
};

// Opens a store below `directory`, e.g. on a shared file system. The last line
// of each file holds the SHA-256 of the rest.
std::unique_ptr<ArtifactStore> OpenDirectoryStore(std::string directory);

}  // namespace comera::worker

#endif  // COMERA_WORKER_REPORT_ARTIFACT_STORE_H_
