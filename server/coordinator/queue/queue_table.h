#ifndef COMERA_SERVER_COORDINATOR_QUEUE_QUEUE_TABLE_H_
#define COMERA_SERVER_COORDINATOR_QUEUE_QUEUE_TABLE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comera/v1/queue_service.pb.h"
#include "server/store/job_store.h"

namespace comera::server {

constexpr char kDefaultQueue[] = "default";

// The queues with their quotas. The default queue is always there, without a
// guarantee or a limit. Every change appends the document that makes it
// durable. Not thread-safe.
class QueueTable {
 public:
  static constexpr char kDocumentKind[] = "queue";
  static constexpr size_t kMaxQueues = 1000;

  QueueTable();

  // Takes over the stored documents of kDocumentKind. DataLoss: one cannot be
  // read.
  absl::Status Load(const std::vector<Document>& documents);

  // Null if unknown. An id is the name without "queues/".
  const v1::Queue* Find(const std::string& id) const;
  // All queues by id.
  const std::map<std::string, v1::Queue>& queues() const { return queues_; }

  // The errors of these are those of queue_service.proto.
  absl::StatusOr<v1::Queue> Create(const v1::CreateQueueRequest& request,
                                   absl::Time now,
                                   std::vector<Document>* documents);
  absl::StatusOr<v1::Queue> Update(const v1::UpdateQueueRequest& request,
                                   std::vector<Document>* documents);
  // The caller must know that the queue has no jobs left.
  absl::Status Delete(const v1::DeleteQueueRequest& request,
                      std::vector<Document>* documents);

 private:
  void Put(const std::string& id, v1::Queue queue,
           std::vector<Document>* documents);

  std::map<std::string, v1::Queue> queues_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_QUEUE_QUEUE_TABLE_H_
