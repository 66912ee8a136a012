// Implements RendezvousMirror: keeps a gang's entries and their writers.
#include "server/coordinator/job/rendezvous_mirror.h"

namespace comera::server {

bool RendezvousMirror::Put(const std::string& worker, const std::string& key,
                           const std::string& value) {
  auto it = entries_.find(key);
  if (it == entries_.end()) {
    if (entries_.size() >= kMaxEntries) return false;
    entries_.emplace(key, std::make_pair(worker, value));
    return true;
  }
  // A restarted worker also tells what it once got from the others.
  if (it->second.second == value) return false;
  it->second = {worker, value};
  return true;
}

void RendezvousMirror::AppendForeign(
    const std::string& worker, const std::string& job, int64_t attempt,
    google::protobuf::RepeatedPtrField<v1::RendezvousEntry>* out) const {
  for (const auto& [key, entry] : entries_) {
    if (entry.first == worker) continue;
    v1::RendezvousEntry* copy = out->Add();
    copy->set_job(job);
    copy->set_attempt(attempt);
    copy->set_key(key);
    copy->set_value(entry.second);
  }
}

}  // namespace comera::server
