// Stores copies of training states and evicts old ones when memory runs short.

#include "worker/checkpoint/replica_cache.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/checkpoint/byte_text.h"

namespace comera::worker {
namespace {

constexpr size_t kPerJob = 2;
constexpr size_t kMaxJobs = 4096;

// A sentence's end that stays the same while sizes hardly change, because it
// becomes part of a MemberTrouble.
std::string NoRoom(size_t needed, size_t there) {
  return absl::StrCat(BytesText(static_cast<int64_t>(needed)), " needed, ",
                      BytesText(static_cast<int64_t>(there)), " there");
}

}  // namespace

absl::Status ReplicaCache::CheckFits(int64_t size) const {
  if (size >= 0 && static_cast<size_t>(size) <= max_bytes_) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      NoRoom(static_cast<size_t>(size), max_bytes_));
}

void ReplicaCache::Erase(const std::string& job, const StateKey& key) {
  const auto at = jobs_.find(job);
  if (at == jobs_.end()) return;
  const auto copy = at->second.find(key);
  if (copy == at->second.end()) return;
  bytes_ -= copy->second.contents->size();
  at->second.erase(copy);
  if (at->second.empty()) jobs_.erase(at);
}

size_t ReplicaCache::Unmovable(const std::string& job) const {
  size_t bytes = 0;
  for (const auto& [name, copies] : jobs_) {
    if (name != job) bytes += copies.rbegin()->second.contents->size();
  }
  return bytes;
}

bool ReplicaCache::EvictOldest() {
  std::string job;
  const Copy* oldest = nullptr;
  for (const auto& [name, copies] : jobs_) {
    if (copies.size() < 2) continue;
    const Copy& copy = copies.begin()->second;
    if (oldest == nullptr || copy.age < oldest->age) {
      oldest = &copy;
      job = name;
    }
  }
  if (oldest == nullptr) return false;
  Erase(job, oldest->name.key());
  return true;
}

absl::Status ReplicaCache::Put(const std::string& job,
                               const CheckpointName& name,
                               std::string contents) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto known = jobs_.find(job);
  if (known == jobs_.end() && jobs_.size() >= kMaxJobs) {
    return absl::ResourceExhaustedError("copies of too many jobs");
  }
  if (known != jobs_.end() &&
      name.attempt < known->second.rbegin()->first.attempt) {
    return absl::AbortedError("there is a copy by a later attempt");
  }
  RETURN_IF_ERROR(CheckFits(static_cast<int64_t>(contents.size())));
  if (Unmovable(job) + contents.size() > max_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat(NoRoom(contents.size(), max_bytes_),
                     " and taken by the newest copies of other jobs"));
  }
  // A copy replaces the same one, and a third displaces the older of two.
  Erase(job, name.key());
  while (jobs_.count(job) > 0 && jobs_[job].size() >= kPerJob) {
    Erase(job, jobs_[job].begin()->first);
  }
  while (bytes_ + contents.size() > max_bytes_) {
    if (!EvictOldest()) Erase(job, jobs_[job].begin()->first);
  }
  bytes_ += contents.size();
  Copy& copy = jobs_[job][name.key()];
  copy.name = name;
  copy.contents = std::make_shared<const std::string>(std::move(contents));
  copy.age = ++puts_;
  return absl::OkStatus();
}

ReplicaCache::Contents ReplicaCache::Get(const std::string& job,
                                         const StateKey& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto at = jobs_.find(job);
  if (at == jobs_.end()) return nullptr;
  std::vector<CheckpointName> names;
  for (const auto& [own, copy] : at->second) names.push_back(copy.name);
  names = NamesOf(key, std::move(names));
  if (names.empty()) return nullptr;
  return at->second.at(names.front().key()).contents;
}

std::vector<ReplicaCache::Entry> ReplicaCache::List(
    const std::string& job) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Entry> entries;
  const auto at = jobs_.find(job);
  if (at == jobs_.end()) return entries;
  for (const auto& [key, copy] : at->second) {
    entries.push_back({copy.name, static_cast<int64_t>(copy.contents->size())});
  }
  return entries;
}

std::vector<std::string> ReplicaCache::Jobs() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> jobs;
  for (const auto& [job, copies] : jobs_) jobs.push_back(job);
  return jobs;
}

void ReplicaCache::Drop(const std::string& job) {
  const std::lock_guard<std::mutex> lock(mutex_);
  while (jobs_.count(job) > 0) Erase(job, jobs_[job].begin()->first);
}

size_t ReplicaCache::bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return bytes_;
}

}  // namespace comera::worker
