// Implements WorkerTable: workers are found, added and marked as changed.
#include "server/coordinator/worker/worker_table.h"

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
  return &workers_.try_emplace(id, id, first_version_).first->second;
}

void WorkerTable::MarkChanged(const std::string& id, Operation* op) {
  if (WorkerState* worker = Find(id)) worker->NextVersion();
  op->MarkWorkerChanged(id);
}

}  // namespace comera::server
