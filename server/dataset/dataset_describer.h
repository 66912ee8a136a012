#ifndef COMERA_SERVER_DATASET_DATASET_DESCRIBER_H_
#define COMERA_SERVER_DATASET_DATASET_DESCRIBER_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
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
    // Calls that may wait or run at once, and of those of one user.
    int max_pending = 16;
    int max_pending_of_user = 2;
  };
  using Done = std::function<void(absl::StatusOr<v1::DatasetDescription>)>;

  DatasetDescriber(const Options& options, const std::string& data_dir,
                   DatasetCatalog* catalog);

  // `user`: who asks; empty: nobody in particular. `done` is called on some
  // thread. Errors of DatasetService.
  void Describe(v1::DescribeDatasetRequest request, std::string user,
                Done done);

  // Ends what is being described, and waits for nothing.
  void Stop() { stopping_ = true; }

 private:
  struct File {
    v1::DatasetFile file;
    std::string blob;
  };

  // Counts one more call of the user. Unavailable: too many wait already.
  absl::Status Begin(const std::string& user);
  void End(const std::string& user);
  // On the thread.
  v1::FileDescription DescribeOne(const v1::DescribeDatasetRequest& request,
                                  const File& file) const;

  const Options options_;
  const std::string folder_;
  DatasetCatalog* const catalog_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  // Calls that wait or run, and those of each user; guarded by mutex_.
  int pending_ = 0;
  std::map<std::string, int> pending_of_;
  std::unique_ptr<EventLoop> thread_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_DATASET_DATASET_DESCRIBER_H_
