#ifndef COMERA_SERVER_HOST_DATASET_PINNER_H_
#define COMERA_SERVER_HOST_DATASET_PINNER_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"

namespace comera::server {

// What the dataset paths of a spec mean now.
struct PinnedDatasets {
  std::vector<v1::DatasetPin> pins;
  // While it lives, none of the versions can be deleted.
  std::shared_ptr<void> hold;
};

// Finds out what dataset paths mean. Called on the event loop, where `done` is
// called too.
class DatasetPinner {
 public:
  virtual ~DatasetPinner() = default;
  // InvalidArgument, with the field: no such dataset, version or file.
  virtual void Pin(
      const v1::JobSpec& spec,
      std::function<void(absl::StatusOr<PinnedDatasets>)> done) = 0;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_HOST_DATASET_PINNER_H_
