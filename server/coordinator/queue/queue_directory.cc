// Implements QueueDirectory: queues are read and listed with their use.
#include "server/coordinator/queue/queue_directory.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "proto/job_state.h"
#include "proto/resource_names.h"

namespace comera::server {
namespace {

constexpr int32_t kDefaultPage = 50;
constexpr int32_t kMaxPage = 1000;

std::string QueueOf(const JobEntry& entry) {
  const std::string& queue = entry.job().spec().queue();
  return queue.empty() ? kDefaultQueue : queue;
}

}  // namespace

absl::Status QueueDirectory::CheckUnused(const std::string& name) const {
  const std::optional<std::string> id = ParseQueueName(name);
  if (!id || queues_->Find(*id) == nullptr) return absl::OkStatus();
  for (const auto& [job, entry] : jobs_->jobs()) {
    if (IsFinal(entry.state()) || QueueOf(entry) != *id) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(name, " still has jobs, e.g. ", job));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Queue> QueueDirectory::Get(const std::string& name) const {
  const std::optional<std::string> id = ParseQueueName(name);
  if (!id) {
    return absl::InvalidArgumentError("name: must be queues/{queue}");
  }
  const v1::Queue* found = queues_->Find(*id);
  if (found == nullptr) {
    return absl::NotFoundError(absl::StrCat("no queue ", name));
  }
  v1::Queue queue = *found;
  AddUse({&queue});
  return queue;
}

absl::StatusOr<v1::ListQueuesResponse> QueueDirectory::List(
    const v1::ListQueuesRequest& request, const Filter& visible) const {
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
  auto it = queues_->queues().upper_bound(request.page_token());
  for (; it != queues_->queues().end(); ++it) {
    if (!visible(it->first)) continue;
    if (response.queues_size() == size) {
      response.set_next_page_token(
          *ParseQueueName(response.queues(size - 1).name()));
      break;
    }
    *response.add_queues() = it->second;
  }
  std::vector<v1::Queue*> page;
  for (v1::Queue& queue : *response.mutable_queues()) page.push_back(&queue);
  AddUse(page);
  return response;
}

void QueueDirectory::AddUse(const std::vector<v1::Queue*>& queues) const {
  std::map<std::string, v1::Queue*> by_id;
  for (v1::Queue* queue : queues) by_id[*ParseQueueName(queue->name())] = queue;
  const auto find = [&](const JobEntry& entry) -> v1::Queue* {
    const auto it = by_id.find(QueueOf(entry));
    return it == by_id.end() ? nullptr : it->second;
  };
  for (const auto& [name, entry] : jobs_->index().active()) {
    v1::Queue* queue = find(*entry);
    if (queue == nullptr) continue;
    queue->set_running_jobs(queue->running_jobs() + 1);
    queue->set_running_processes(
        queue->running_processes() +
        static_cast<int32_t>(entry->attempt().members().size()));
  }
  for (const JobEntry* entry : jobs_->index().Queued()) {
    v1::Queue* queue = find(*entry);
    if (queue == nullptr) continue;
    queue->set_queued_jobs(queue->queued_jobs() + 1);
    queue->set_queued_processes(
        queue->queued_processes() +
        std::max(1, entry->job().spec().resources().processes()));
  }
}

}  // namespace comera::server
