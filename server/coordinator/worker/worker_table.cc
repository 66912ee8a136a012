// Implements WorkerTable: workers are found, added and marked as changed.
#include "server/coordinator/worker/worker_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace comera::server {

absl::Status WorkerTable::Load(const std::vector<Document>& documents) {
  for (const Document& document : documents) {
    WorkerPolicy policy;
    if (!document.body || !policy.ParseFromString(*document.body)) {
      return absl::DataLossError(
          absl::StrCat("the stored worker ", document.name, " is damaged"));
    }
    if (WorkerState* worker = FindOrAdd(document.name)) {
      worker->LoadPolicy(std::move(policy));
    }
  }
  return absl::OkStatus();
}

WorkerState* WorkerTable::Find(const std::string& id) {
  auto it = workers_.find(id);
  return it == workers_.end() ? nullptr : &it->second;
}

const WorkerState* WorkerTable::Find(const std::string& id) const {
  auto it = workers_.find(id);
  return it == workers_.end() ? nullptr : &it->second;
}

WorkerState* WorkerTable::FindOrAdd(const std::string& id) {
  if (WorkerState* worker = Find(id)) return worker;
  if (workers_.size() >= kMaxWorkers) return nullptr;
  WorkerState& worker =
      workers_.try_emplace(id, id, first_version_).first->second;
  ring_.emplace(SpreadText(id), &worker);
  if (const auto kept = policies_.find(id); kept != policies_.end()) {
    worker.LoadPolicy(std::move(kept->second));
    policies_.erase(kept);
  }
  return &worker;
}

WorkerState* WorkerTable::FindOrRecall(const std::string& id) {
  return policies_.count(id) > 0 ? FindOrAdd(id) : Find(id);
}

std::vector<std::string> WorkerTable::ForgetAway(absl::Time now,
                                                 absl::Duration longer) {
  std::vector<std::string> forgotten;
  for (auto& [id, worker] : workers_) {
    if (now - worker.NoteAway(now) > longer) forgotten.push_back(id);
  }
  for (const std::string& id : forgotten) {
    const WorkerState& worker = workers_.at(id);
    if (worker.policy().drained() || worker.policy().excluded()) {
      policies_[id] = worker.policy();
    }
    Erase(worker);
  }
  return forgotten;
}

void WorkerTable::Remove(const std::string& id, Operation* op) {
  WorkerState& worker = workers_.at(id);
  worker.SetPolicy(WorkerPolicy(), op);
  Erase(worker);
}

void WorkerTable::Erase(const WorkerState& worker) {
  const std::string id = worker.id();
  // It may come back with what it has seen.
  first_version_ = std::max(first_version_, worker.desired_version() + 1);
  ring_.erase({SpreadText(id), &worker});
  workers_.erase(id);
}

std::vector<const WorkerState*> WorkerTable::Neighbours(const std::string& text,
                                                        size_t limit) const {
  // Some of them may be away.
  const size_t visits = std::min(4 * limit, ring_.size());
  std::vector<const WorkerState*> found;
  auto next = ring_.lower_bound({SpreadText(text), nullptr});
  for (size_t i = 0; i < visits && found.size() < limit; ++i, ++next) {
    if (next == ring_.end()) next = ring_.begin();
    if (next->second->IsReachable()) found.push_back(next->second);
  }
  return found;
}

uint64_t SpreadText(std::string_view text, uint64_t seed) {
  for (char c : text) {  // FNV-1a
    seed = (seed ^ static_cast<unsigned char>(c)) * 1099511628211u;
  }
  // The high bits depend on the last letters too (the finaliser of MurmurHash3).
  seed = (seed ^ (seed >> 33)) * 0xff51afd7ed558ccdu;
  seed = (seed ^ (seed >> 33)) * 0xc4ceb9fe1a85ec53u;
  return seed ^ (seed >> 33);
}

void WorkerTable::MarkChanged(const std::string& id, Operation* op) {
  if (WorkerState* worker = Find(id)) worker->NextVersion();
  op->MarkWorkerChanged(id);
}

}  // namespace comera::server
