#ifndef COMERA_SERVER_DATASET_DATASET_DESCRIBER_H_
#define COMERA_SERVER_DATASET_DATASET_DESCRIBER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/dataset/dataset_catalog.h"
#include "server/dataset/file_description.h"

namespace comera::server {

// Looks into datasets. What a file holds is computed once, on a thread of its
// own, and kept below `descriptions/` in the data folder. Thread-safe; to be
// destroyed before the catalog.
class DatasetDescriber {
 public:
  struct Options {
    DescribeLimits limits;
    // Without a path in the request: so many files by path.
    int files = 20;
  };
  using Done = std::function<void(absl::StatusOr<v1::DatasetDescription>)>;

  DatasetDescriber(const Options& options, const std::string& data_dir,
                   DatasetCatalog* catalog);

  // `done` is called on some thread. Errors of DatasetService.
  void Describe(v1::DescribeDatasetRequest request, Done done);

  // Ends what is being described, and waits for nothing.
  void Stop() { stopping_ = true; }

 private:
  struct File {
    v1::DatasetFile file;
    std::string blob;
  };

  // On the thread.
  v1::FileDescription DescribeOne(const v1::DescribeDatasetRequest& request,
                                  const File& file) const;

  const Options options_;
  const std::string folder_;
  DatasetCatalog* const catalog_;
  std::atomic<bool> stopping_{false};
  // Calls that wait or run.
  std::atomic<int> pending_{0};
  std::unique_ptr<EventLoop> thread_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_DATASET_DATASET_DESCRIBER_H_
