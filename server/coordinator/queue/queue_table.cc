// Implements QueueTable: queues are checked, changed and made durable.
#include "server/coordinator/queue/queue_table.h"

#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/former_names.h"
#include "proto/resource_names.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

constexpr int32_t kMaxProcesses = 1 << 20;
constexpr double kMaxWeight = 1000;

v1::Queue DefaultQueue() {
  v1::Queue queue;
  queue.set_name(QueueName(kDefaultQueue));
  queue.set_weight(1);
  queue.set_borrowing(true);
  queue.set_etag("1");
  return queue;
}

void ClearOutputs(v1::Queue& queue) {
  queue.clear_running_jobs();
  queue.clear_running_processes();
  queue.clear_queued_jobs();
  queue.clear_queued_processes();
}

absl::Status Invalid(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
}

absl::Status Check(const v1::Queue& queue) {
  if (queue.guaranteed_processes() < 0 ||
      queue.guaranteed_processes() > kMaxProcesses) {
    return Invalid("queue.guaranteed_processes",
                   absl::StrCat("must be 0 to ", kMaxProcesses));
  }
  if (queue.max_processes() < 0 || queue.max_processes() > kMaxProcesses) {
    return Invalid("queue.max_processes",
                   absl::StrCat("must be 0 (none) to ", kMaxProcesses));
  }
  if (queue.max_processes() > 0 &&
      queue.max_processes() < queue.guaranteed_processes()) {
    return Invalid("queue.max_processes", "is below guaranteed_processes");
  }
  if (!(queue.weight() > 0) || !(queue.weight() <= kMaxWeight)) {
    return Invalid("queue.weight",
                   absl::StrCat("must be above 0 and at most ", kMaxWeight));
  }
  if (!queue.borrowing() && queue.guaranteed_processes() == 0) {
    return Invalid("queue.borrowing",
                   "without it a queue needs guaranteed_processes");
  }
  if (queue.program_role() != v1::ROLE_UNSPECIFIED &&
      queue.program_role() != v1::ROLE_USER &&
      queue.program_role() != v1::ROLE_ADMIN) {
    return Invalid("queue.program_role", "must be ROLE_USER or ROLE_ADMIN");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> IdOf(const std::string& field,
                                 const std::string& name) {
  std::optional<std::string> id = ParseQueueName(name);
  if (!id) return Invalid(field, "must be queues/{queue}");
  return *std::move(id);
}

absl::Status CheckEtag(const std::string& given, const v1::Queue& queue) {
  if (given.empty() || given == queue.etag()) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat("etag: ", queue.name(), " was changed meanwhile"));
}

}  // namespace

QueueTable::QueueTable() { queues_[kDefaultQueue] = DefaultQueue(); }

absl::Status QueueTable::Load(const std::vector<Document>& documents) {
  for (const Document& document : documents) {
    v1::Queue queue;
    if (!document.body || !queue.ParseFromString(*document.body) ||
        queue.name() != QueueName(document.name)) {
      return absl::DataLossError(
          absl::StrCat("the stored queue ", document.name, " is damaged"));
    }
    queues_[document.name] = std::move(queue);
  }
  return absl::OkStatus();
}

const v1::Queue* QueueTable::Find(const std::string& id) const {
  const auto it = queues_.find(id);
  return it == queues_.end() ? nullptr : &it->second;
}

void QueueTable::Put(const std::string& id, v1::Queue queue,
                     std::vector<Document>* documents) {
  documents->push_back({kDocumentKind, id, queue.SerializeAsString()});
  queues_[id] = std::move(queue);
}

absl::StatusOr<v1::Queue> QueueTable::Create(
    const v1::CreateQueueRequest& request, absl::Time now,
    std::vector<Document>* documents) {
  const std::string& id = request.queue_id();
  if (!IsResourceId(id)) {
    return Invalid("queue_id", "must be [a-z0-9-]{1,63}");
  }
  if (Find(id) != nullptr) {
    return absl::AlreadyExistsError(
        absl::StrCat(QueueName(id), " exists already"));
  }
  if (queues_.size() >= kMaxQueues) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", kMaxQueues, " queues already"));
  }
  v1::Queue queue = request.queue();
  ClearOutputs(queue);
  queue.set_name(QueueName(id));
  if (queue.weight() == 0) queue.set_weight(1);
  if (!queue.has_borrowing()) queue.set_borrowing(true);
  queue.set_etag("1");
  *queue.mutable_create_time() = ToTimestamp(now);
  RETURN_IF_ERROR(Check(queue));
  Put(id, queue, documents);
  return queue;
}

absl::StatusOr<v1::Queue> QueueTable::Update(
    const v1::UpdateQueueRequest& request, std::vector<Document>* documents) {
  const v1::Queue& given = request.queue();
  ASSIGN_OR_RETURN(const std::string id, IdOf("queue.name", given.name()));
  const v1::Queue* old = Find(id);
  if (old == nullptr) {
    return absl::NotFoundError(absl::StrCat("no queue ", given.name()));
  }
  RETURN_IF_ERROR(CheckEtag(given.etag(), *old));
  if (request.update_mask().paths().empty()) {
    return Invalid("update_mask", "names no field");
  }
  v1::Queue queue = *old;
  for (const std::string& asked : request.update_mask().paths()) {
    const std::string path = CurrentPath(*v1::Queue::descriptor(), asked);
    if (path == "guaranteed_processes") {
      queue.set_guaranteed_processes(given.guaranteed_processes());
    } else if (path == "max_processes") {
      queue.set_max_processes(given.max_processes());
    } else if (path == "weight") {
      queue.set_weight(given.weight() == 0 ? 1 : given.weight());
    } else if (path == "borrowing") {
      queue.set_borrowing(!given.has_borrowing() || given.borrowing());
    } else if (path == "program_role") {
      queue.set_program_role(given.program_role());
    } else {
      return Invalid(
          "update_mask",
          absl::StrCat("\"", path.substr(0, 64),
                       "\" is none of guaranteed_processes, max_processes, "
                       "weight, borrowing, program_role"));
    }
  }
  RETURN_IF_ERROR(Check(queue));
  int64_t revision = 0;
  (void)absl::SimpleAtoi(queue.etag(), &revision);
  queue.set_etag(absl::StrCat(revision + 1));
  Put(id, queue, documents);
  return queue;
}

absl::Status QueueTable::Delete(const v1::DeleteQueueRequest& request,
                                std::vector<Document>* documents) {
  ASSIGN_OR_RETURN(const std::string id, IdOf("name", request.name()));
  const v1::Queue* queue = Find(id);
  if (queue == nullptr) {
    return absl::NotFoundError(absl::StrCat("no queue ", request.name()));
  }
  RETURN_IF_ERROR(CheckEtag(request.etag(), *queue));
  if (id == kDefaultQueue) {
    return absl::FailedPreconditionError("the default queue always exists");
  }
  documents->push_back({kDocumentKind, id, std::nullopt});
  queues_.erase(id);
  return absl::OkStatus();
}

}  // namespace comera::server
