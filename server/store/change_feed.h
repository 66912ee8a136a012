// How a coordinator that does not lead learns what the leader wrote.
#ifndef COMERA_SERVER_STORE_CHANGE_FEED_H_
#define COMERA_SERVER_STORE_CHANGE_FEED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/store/job_record.pb.h"

namespace comera::server {

struct StoreChanges {
  // In any order.
  std::vector<JobRecord> records;
  std::vector<std::string> deleted_jobs;
  // Number of the newest commit seen.
  int64_t change = 0;
};

// What a store commits, by the numbers of its commits. Not thread-safe.
class ChangeFeed {
 public:
  virtual ~ChangeFeed() = default;
  // What was committed after the commit of that number (0: everything).
  // DataLoss, Unavailable.
  virtual absl::StatusOr<StoreChanges> ReadChanges(int64_t after) = 0;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_STORE_CHANGE_FEED_H_
