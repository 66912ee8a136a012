// Queues, as administrators change them and everybody reads them.
#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/resource_names.h"
#include "server/coordinator/coordinator.h"

namespace comera::server {
namespace {

constexpr int32_t kDefaultPage = 50;
constexpr int32_t kMaxPage = 1000;

std::string QueueOf(const JobEntry& entry) {
  const std::string& queue = entry.job().spec().queue();
  return queue.empty() ? kDefaultQueue : queue;
}

}  // namespace

absl::Status Coordinator::LoadDocuments(const std::vector<Document>& queues,
                                        const std::vector<Document>& workers) {
  RETURN_IF_ERROR(queues_.Load(queues));
  for (const Document& document : workers) {
    WorkerPolicy policy;
    if (!document.body || !policy.ParseFromString(*document.body)) {
      return absl::DataLossError(
          absl::StrCat("the stored worker ", document.name, " is damaged"));
    }
    if (WorkerState* worker = workers_.FindOrAdd(document.name)) {
      worker->policy = std::move(policy);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Queue> Coordinator::CreateQueue(
    const v1::CreateQueueRequest& request, absl::Time now, Effects* effects) {
  needs_schedule_ = true;
  return queues_.Create(request, now, &effects->documents);
}

absl::StatusOr<v1::Queue> Coordinator::UpdateQueue(
    const v1::UpdateQueueRequest& request, Effects* effects) {
  ASSIGN_OR_RETURN(v1::Queue queue,
                   queues_.Update(request, &effects->documents));
  needs_schedule_ = true;
  AddUse({&queue});
  return queue;
}

absl::StatusOr<v1::DeleteQueueResponse> Coordinator::DeleteQueue(
    const v1::DeleteQueueRequest& request, Effects* effects) {
  const std::optional<std::string> id = ParseQueueName(request.name());
  if (id && queues_.Find(*id) != nullptr) {
    for (const auto& [name, entry] : jobs_.jobs()) {
      if (IsFinal(entry.job().state()) || QueueOf(entry) != *id) continue;
      return absl::FailedPreconditionError(
          absl::StrCat(request.name(), " still has jobs, e.g. ", name));
    }
  }
  RETURN_IF_ERROR(queues_.Delete(request, &effects->documents));
  return v1::DeleteQueueResponse();
}

absl::StatusOr<v1::Queue> Coordinator::GetQueue(const std::string& name) const {
  const std::optional<std::string> id = ParseQueueName(name);
  if (!id) {
    return absl::InvalidArgumentError("name: must be queues/{queue}");
  }
  const v1::Queue* found = queues_.Find(*id);
  if (found == nullptr) {
    return absl::NotFoundError(absl::StrCat("no queue ", name));
  }
  v1::Queue queue = *found;
  AddUse({&queue});
  return queue;
}

absl::StatusOr<v1::ListQueuesResponse> Coordinator::ListQueues(
    const v1::ListQueuesRequest& request) const {
  if (request.page_size() < 0 || request.page_size() > kMaxPage) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size: must be 0 to ", kMaxPage));
  }
  // A token is the last name of the page before.
  if (!request.page_token().empty() && !IsResourceId(request.page_token())) {
    return absl::InvalidArgumentError("page_token: not one of this server's");
  }
  const int32_t size =
      request.page_size() == 0 ? kDefaultPage : request.page_size();
  v1::ListQueuesResponse response;
  std::vector<v1::Queue*> page;
  auto it = queues_.queues().upper_bound(request.page_token());
  for (; it != queues_.queues().end(); ++it) {
    if (response.queues_size() == size) {
      response.set_next_page_token(
          *ParseQueueName(response.queues(size - 1).name()));
      break;
    }
    *response.add_queues() = it->second;
  }
  for (v1::Queue& queue : *response.mutable_queues()) page.push_back(&queue);
  AddUse(page);
  return response;
}

void Coordinator::AddUse(const std::vector<v1::Queue*>& queues) const {
  std::map<std::string, v1::Queue*> by_id;
  for (v1::Queue* queue : queues) by_id[*ParseQueueName(queue->name())] = queue;
  const auto find = [&](const JobEntry& entry) -> v1::Queue* {
    const auto it = by_id.find(QueueOf(entry));
    return it == by_id.end() ? nullptr : it->second;
  };
  for (const std::string& name : jobs_.active()) {
    const JobEntry& entry = *jobs_.Find(name);
    v1::Queue* queue = find(entry);
    if (queue == nullptr) continue;
    queue->set_running_jobs(queue->running_jobs() + 1);
    queue->set_running_processes(queue->running_processes() +
                                 entry.record.attempt().members_size());
  }
  for (const JobEntry* entry : jobs_.QueuedEntries()) {
    v1::Queue* queue = find(*entry);
    if (queue == nullptr) continue;
    queue->set_queued_jobs(queue->queued_jobs() + 1);
    queue->set_queued_processes(
        queue->queued_processes() +
        std::max(1, entry->job().spec().resources().processes()));
  }
}

}  // namespace comera::server
