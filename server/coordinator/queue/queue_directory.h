#ifndef COMERA_SERVER_COORDINATOR_QUEUE_QUEUE_DIRECTORY_H_
#define COMERA_SERVER_COORDINATOR_QUEUE_QUEUE_DIRECTORY_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/queue_service.pb.h"
#include "server/coordinator/job/job_table.h"
#include "server/coordinator/queue/queue_table.h"

namespace comera::server {

// The queues as clients see them: with what their jobs have and want. Errors
// are those of queue_service.proto. Not thread-safe.
class QueueDirectory {
 public:
  // Both must outlive it.
  QueueDirectory(const JobTable* jobs, const QueueTable* queues)
      : jobs_(jobs), queues_(queues) {}

  absl::StatusOr<v1::Queue> Get(const std::string& name) const;
  // Whether the asker may see the queue of this id.
  using Filter = std::function<bool(const std::string& queue)>;
  // The queues that are `visible`.
  absl::StatusOr<v1::ListQueuesResponse> List(
      const v1::ListQueuesRequest& request, const Filter& visible) const;
  // FailedPrecondition: the queue has unfinished jobs.
  absl::Status CheckUnused(const std::string& name) const;
  // Adds the numbers of jobs and processes.
  void AddUse(const std::vector<v1::Queue*>& queues) const;

 private:
  const JobTable* const jobs_;
  const QueueTable* const queues_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_QUEUE_QUEUE_DIRECTORY_H_
