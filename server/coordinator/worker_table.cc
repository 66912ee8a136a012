#include "server/coordinator/worker_table.h"

namespace comera::server {

WorkerState* WorkerTable::Find(const std::string& id) {
  auto it = workers_.find(id);
  return it == workers_.end() ? nullptr : &it->second;
}

WorkerState* WorkerTable::FindOrAdd(const std::string& id) {
  auto it = workers_.find(id);
  if (it != workers_.end()) return &it->second;
  if (workers_.size() >= kMaxWorkers) return nullptr;
  WorkerState& worker = workers_[id];
  worker.id = id;
  worker.desired_version = first_version_;
  return &worker;
}

void WorkerTable::Touch(const std::string& id) {
  if (WorkerState* worker = Find(id)) ++worker->desired_version;
}

}  // namespace comera::server
