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

// A store of files out of reach of a lost machine, shared by all workers.
//
// Names are relative paths of [A-Za-z0-9._-] parts that do not begin with a
// point. A file is there whole or not at all, and what comes back is what was
// given. Thread-safe; several processes may use one store.
//
// Errors: InvalidArgument, name; Unavailable, the store cannot be reached.
class ArtifactStore {
 public:
  virtual ~ArtifactStore() = default;

  // Durable on return; replaces what has the name. ResourceExhausted: full.
  virtual absl::Status Put(const std::string& name,
                           std::string_view contents) = 0;
  // NotFound. DataLoss: it is damaged.
  virtual absl::StatusOr<std::string> Get(const std::string& name) = 0;
  // Names in a folder, sorted; none where there is no such folder.
  virtual absl::StatusOr<std::vector<std::string>> List(
      const std::string& folder) = 0;
  // OK also if there is none.
  virtual absl::Status Delete(const std::string& name) = 0;
  // Deletes what was not written for `age` below the folder.
  virtual absl::Status Expire(const std::string& folder,
                              absl::Duration age) = 0;
};

// Files below `directory`, e.g. of a shared file system, each with a last line
// that holds the SHA-256 of the rest.
std::unique_ptr<ArtifactStore> OpenDirectoryStore(std::string directory);

}  // namespace comera::worker

#endif  // COMERA_WORKER_REPORT_ARTIFACT_STORE_H_
