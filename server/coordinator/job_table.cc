#include "server/coordinator/job_table.h"

#include <algorithm>
#include <utility>

namespace comera::server {

bool IsActive(v1::JobState state) {
  return state == v1::STARTING || state == v1::RUNNING ||
         state == v1::CANCELLING;
}

JobEntry* JobTable::Find(const std::string& name) {
  auto it = jobs_.find(name);
  return it == jobs_.end() ? nullptr : &it->second;
}

const JobEntry* JobTable::Find(const std::string& name) const {
  auto it = jobs_.find(name);
  return it == jobs_.end() ? nullptr : &it->second;
}

JobEntry* JobTable::FindRequest(const std::string& request_id) {
  auto it = requests_.find(request_id);
  return it == requests_.end() ? nullptr : Find(it->second);
}

JobEntry* JobTable::Add(JobRecord record) {
  const std::string name = record.job().name();
  JobEntry& entry = jobs_[name];
  entry.record = std::move(record);
  if (!entry.job().request_id().empty()) {
    requests_[entry.job().request_id()] = name;
  }
  last_serial_ = std::max(last_serial_, entry.record.serial());
  entry.demand = DemandOf(entry.job().spec());
  StateChanged(entry);
  return &entry;
}

void JobTable::Remove(const std::string& name) {
  auto it = jobs_.find(name);
  if (it == jobs_.end()) return;
  requests_.erase(it->second.job().request_id());
  jobs_.erase(it);
}

void JobTable::StateChanged(JobEntry& entry) {
  entry.wait = WaitReason();
  const std::string& name = entry.job().name();
  const auto key = std::make_pair(-int64_t{entry.job().spec().priority()},
                                  entry.record.serial());
  if (entry.job().state() == v1::QUEUED) {
    queued_[key] = &entry;
  } else {
    queued_.erase(key);
  }
  if (IsActive(entry.job().state())) {
    active_.insert(name);
    active_entries_[entry.record.serial()] = &entry;
  } else {
    active_.erase(name);
    active_entries_.erase(entry.record.serial());
  }
}

std::vector<std::string> JobTable::Queued() const {
  std::vector<std::string> names;
  names.reserve(queued_.size());
  for (const auto& [key, entry] : queued_) names.push_back(entry->job().name());
  return names;
}

std::vector<JobEntry*> JobTable::QueuedEntries() const {
  std::vector<JobEntry*> entries;
  entries.reserve(queued_.size());
  for (const auto& [key, entry] : queued_) entries.push_back(entry);
  return entries;
}

}  // namespace comera::server
