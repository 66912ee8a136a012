#ifndef COMERA_WORKER_DATA_DATA_ROOTS_H_
#define COMERA_WORKER_DATA_DATA_ROOTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"

namespace comera::worker {

// The folders of this machine from which jobs may read data. Immutable.
class DataRoots {
 public:
  // Allows every folder.
  DataRoots() = default;

  // Allows only what lies below `folders`, or everything if there are none.
  // InvalidArgument: one of them is not a folder.
  static absl::StatusOr<DataRoots> Create(
      const std::vector<std::string>& folders);

  // InvalidArgument, with the field: a path of the spec, with symbolic links
  // resolved, is not below a root or does not exist. References to datasets are
  // not checked.
  absl::Status Check(const v1::JobSpec& spec) const;

 private:
  // The folders with symbolic links resolved, each ending in "/".
  std::vector<std::string> roots_;
};

}  // namespace comera::worker

#endif  // COMERA_WORKER_DATA_DATA_ROOTS_H_
