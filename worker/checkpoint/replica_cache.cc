// Stores copies of training states and evicts old ones when memory runs short.

#include "worker/checkpoint/replica_cache.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace comera::worker {
namespace {

constexpr size_t kPerJob = 2;
constexpr size_t kMaxJobs = 4096;

}  // namespace

void ReplicaCache::Erase(const std::string& job, int64_t step) {
  const auto at = jobs_.find(job);
  if (at == jobs_.end()) return;
  const auto copy = at->second.find(step);
  if (copy == at->second.end()) return;
  bytes_ -= copy->second.contents->size();
  at->second.erase(copy);
  if (at->second.empty()) jobs_.erase(at);
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
  Erase(job, oldest->name.step);
  return true;
}

absl::Status ReplicaCache::Put(const std::string& job,
                               const CheckpointName& name,
                               std::string contents) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // A copy replaces the same one, and a third displaces the older of two.
  Erase(job, name.step);
  const auto known = jobs_.find(job);
  if (known == jobs_.end() && jobs_.size() >= kMaxJobs) {
    return absl::ResourceExhaustedError("copies of too many jobs");
  }
  while (jobs_.count(job) > 0 && jobs_[job].size() >= kPerJob) {
    Erase(job, jobs_[job].begin()->first);
  }
  while (bytes_ + contents.size() > max_bytes_ && EvictOldest()) continue;
  if (bytes_ + contents.size() > max_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no room for ", contents.size(), " bytes: ", bytes_,
                     " of ", max_bytes_, " are taken"));
  }
  bytes_ += contents.size();
  Copy& copy = jobs_[job][name.step];
  copy.name = name;
  copy.contents = std::make_shared<const std::string>(std::move(contents));
  copy.age = ++puts_;
  return absl::OkStatus();
}

ReplicaCache::Contents ReplicaCache::Get(const std::string& job,
                                         int64_t step) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto at = jobs_.find(job);
  if (at == jobs_.end()) return nullptr;
  const auto copy = at->second.find(step);
  return copy == at->second.end() ? nullptr : copy->second.contents;
}

std::vector<ReplicaCache::Entry> ReplicaCache::List(
    const std::string& job) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Entry> entries;
  const auto at = jobs_.find(job);
  if (at == jobs_.end()) return entries;
  for (const auto& [step, copy] : at->second) {
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
