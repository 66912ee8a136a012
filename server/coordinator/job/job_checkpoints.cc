// Keeps the list of a job's checkpoints and of the workers that hold them.
#include "server/coordinator/job/job_checkpoints.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

constexpr int kMaxNamed = 64;

v1::Checkpoint* FindStep(int64_t step, v1::Job* job) {
  for (v1::Checkpoint& checkpoint : *job->mutable_checkpoints()) {
    if (checkpoint.step() == step) return &checkpoint;
  }
  return nullptr;
}

bool SetHolder(const std::string& worker, bool holds,
               v1::Checkpoint* checkpoint) {
  auto& workers = *checkpoint->mutable_workers();
  const auto at = std::find(workers.begin(), workers.end(), worker);
  if ((at != workers.end()) == holds) return false;
  if (holds) {
    *workers.Add() = worker;
  } else {
    workers.erase(at);
  }
  return true;
}

}  // namespace

void RecordSaved(const v1::CheckpointSaved& saved, const std::string& worker,
                 absl::Time now, v1::Job* job) {
  v1::Checkpoint* checkpoint = FindStep(saved.step(), job);
  if (checkpoint == nullptr) {
    checkpoint = job->add_checkpoints();
    checkpoint->set_name(
        absl::StrCat(job->name(), "/checkpoints/", saved.step()));
    checkpoint->set_step(saved.step());
  }
  checkpoint->set_size_bytes(saved.size_bytes());
  *checkpoint->mutable_create_time() = ToTimestamp(now);
  checkpoint->set_stage(job->progress().stage());
  SetHolder(worker, true, checkpoint);
  auto& all = *job->mutable_checkpoints();
  std::sort(all.begin(), all.end(),
            [](const v1::Checkpoint& a, const v1::Checkpoint& b) {
              return a.step() < b.step();
            });
  const int keep =
      std::clamp(job->spec().checkpoint().keep(), 2, kMaxNamed / 2);
  int surplus = all.size() - keep;
  for (auto it = all.begin(); it != all.end() && surplus > 0; --surplus) {
    it = it->durable() && all.size() <= kMaxNamed ? it + 1 : all.erase(it);
  }
}

bool UpdateHeld(const std::string& worker,
                const std::vector<v1::HeldCheckpoint>& held, v1::Job* job) {
  bool changed = false;
  auto& all = *job->mutable_checkpoints();
  for (auto it = all.begin(); it != all.end();) {
    bool holds = false, durable = false;
    for (const v1::HeldCheckpoint& one : held) {
      if (one.step() != it->step() ||
          one.place() == v1::HeldCheckpoint::PLACE_UNSPECIFIED) {
        continue;
      }
      const bool shared = one.place() == v1::HeldCheckpoint::DURABLE;
      durable = durable || shared;
      holds = holds || !shared;
    }
    changed = SetHolder(worker, holds, &*it) || changed;
    if (durable && !it->durable()) {
      it->set_durable(true);
      changed = true;
    }
    if (it->workers().empty() && !it->durable()) {
      it = all.erase(it);
      changed = true;
    } else {
      ++it;
    }
  }
  return changed;
}

}  // namespace comera::server
