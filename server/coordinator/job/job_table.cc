// Implements JobTable: jobs are added, found and removed.
#include "server/coordinator/job/job_table.h"

#include <algorithm>
#include <utility>

namespace comera::server {

JobEntry* JobTable::Find(const std::string& name) {
  auto it = jobs_.find(name);
  return it == jobs_.end() ? nullptr : &it->second;
}

const JobEntry* JobTable::Find(const std::string& name) const {
  auto it = jobs_.find(name);
  return it == jobs_.end() ? nullptr : &it->second;
}

const JobEntry* JobTable::FindRequest(const std::string& request_id) const {
  auto it = requests_.find(request_id);
  return it == requests_.end() ? nullptr : Find(it->second);
}

JobEntry* JobTable::FindAttempt(const std::string& name, int64_t attempt) {
  JobEntry* entry = Find(name);
  return entry != nullptr && entry->active() &&
                 entry->attempt().number() == attempt
             ? entry
             : nullptr;
}

const JobEntry* JobTable::FindAlias(const std::string& alias) const {
  auto it = aliases_.find(alias);
  return it == aliases_.end() ? nullptr : Find(it->second);
}

void JobTable::NoteAlias(const std::string& alias, const JobEntry* job) {
  if (job == nullptr) {
    aliases_.erase(alias);
  } else {
    aliases_[alias] = job->name();
  }
}

JobEntry* JobTable::Add(JobRecord record) {
  const std::string name = record.job().name();
  for (const v1::Artifact& model : record.job().models()) {
    for (const std::string& alias : model.aliases()) aliases_[alias] = name;
  }
  if (!record.job().request_id().empty()) {
    requests_[record.job().request_id()] = name;
  }
  last_serial_ = std::max(last_serial_, record.serial());
  return &jobs_.try_emplace(name, std::move(record), &index_).first->second;
}

void JobTable::Remove(const std::string& name) {
  auto it = jobs_.find(name);
  if (it == jobs_.end()) return;
  requests_.erase(it->second.job().request_id());
  for (const v1::Artifact& model : it->second.job().models()) {
    for (const std::string& alias : model.aliases()) {
      if (FindAlias(alias) == &it->second) aliases_.erase(alias);
    }
  }
  jobs_.erase(it);
}

}  // namespace comera::server
