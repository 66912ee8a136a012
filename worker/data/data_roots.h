#ifndef COMERA_WORKER_DATA_DATA_ROOTS_H_
#define COMERA_WORKER_DATA_DATA_ROOTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"

namespace comera::worker {

// The folders of this machine that jobs may read data from. Immutable.
class DataRoots {
 public:
  // Everywhere.
  DataRoots() = default;

  // Only below `folders`; none: everywhere. InvalidArgument: one is no folder.
  static absl::StatusOr<DataRoots> Create(
      const std::vector<std::string>& folders);

  // InvalidArgument, with the field: a path of the spec, seen without symbolic
  // links, does not lie below a root, or does not exist. References to
  // datasets are passed over.
  absl::Status Check(const v1::JobSpec& spec) const;

 private:
  // Without symbolic links, each ending in "/".
  std::vector<std::string> roots_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_DATA_DATA_ROOTS_H_
