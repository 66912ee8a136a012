// Keeps the list of training states on this machine up to date as files and
// copies change.

#include "worker/checkpoint/checkpoint_shelf.h"

#include <optional>

#include "worker/files/open_folder.h"

namespace comera::worker {
namespace {

// The most entries that the coordinator accepts in one call.
constexpr int kMaxHeld = 16000;
// More than checkpoint.keep can ask for, with the snapshots between them.
constexpr size_t kMaxOfJob = 1100;

}  // namespace

void CheckpointShelf::ScanAll() {
  on_disk_.clear();
  for (const std::string& job : folders_->Jobs()) Scan(job);
}

void CheckpointShelf::Scan(const std::string& job) {
  std::vector<v1::HeldCheckpoint> found;
  const PathBelow path = folders_->Checkpoints(job);
  std::vector<CheckpointName> names = ListCheckpointFiles(path);
  // Members write there, and one must not crowd out what others have.
  if (names.size() > kMaxOfJob) {
    names.erase(names.begin(), names.end() - kMaxOfJob);
  }
  const absl::StatusOr<OpenFolder> folder = OpenFolder::Open(path);
  for (const CheckpointName& name : names) {
    v1::HeldCheckpoint held;
    held.set_job(job);
    held.set_step(name.step);
    held.set_snapshot(name.snapshot);
    held.set_attempt(name.attempt);
    held.set_place(v1::HeldCheckpoint::DISK);
    std::optional<int64_t> size;
    if (folder.ok()) size = folder->SizeOf(ToFileName(name));
    // It may be gone by now.
    if (size) held.set_size_bytes(*size);
    found.push_back(std::move(held));
  }
  if (found.empty()) {
    // An entry without a step, so that the coordinator can say when the job's
    // other files may be removed.
    v1::HeldCheckpoint other;
    other.set_job(job);
    found.push_back(std::move(other));
  }
  on_disk_[job] = std::move(found);
}

bool CheckpointShelf::SetStored(StoredStates states) {
  if (states == stored_) return false;
  stored_ = std::move(states);
  return true;
}

bool CheckpointShelf::AddStored(const std::string& job, const StateKey& key) {
  return stored_[job].insert(key).second;
}

void CheckpointShelf::DropStored(const std::string& job, const StateKey& key) {
  const auto found = stored_.find(job);
  if (found == stored_.end()) return;
  found->second.erase(key);
  if (found->second.empty()) stored_.erase(found);
}

void CheckpointShelf::Forget(const std::string& job) { on_disk_.erase(job); }

void CheckpointShelf::Fill(
    google::protobuf::RepeatedPtrField<v1::HeldCheckpoint>* held) const {
  for (const std::string& job : cache_->Jobs()) {
    for (const ReplicaCache::Entry& entry : cache_->List(job)) {
      if (held->size() >= kMaxHeld) return;
      v1::HeldCheckpoint* one = held->Add();
      one->set_job(job);
      one->set_step(entry.name.step);
      one->set_snapshot(entry.name.snapshot);
      one->set_attempt(entry.name.attempt);
      one->set_size_bytes(entry.size);
      one->set_place(v1::HeldCheckpoint::MEMORY);
    }
  }
  for (const auto& [job, found] : on_disk_) {
    for (const v1::HeldCheckpoint& one : found) {
      if (held->size() >= kMaxHeld) return;
      *held->Add() = one;
    }
  }
  for (const auto& [job, states] : stored_) {
    for (const StateKey& key : states) {
      if (held->size() >= kMaxHeld) return;
      v1::HeldCheckpoint* one = held->Add();
      one->set_job(job);
      one->set_step(key.step);
      one->set_attempt(key.attempt);
      one->set_place(v1::HeldCheckpoint::DURABLE);
    }
  }
}

}  // namespace comera::worker
