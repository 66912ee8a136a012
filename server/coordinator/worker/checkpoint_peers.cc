// Implements CheckpointPeers: holders, replicas and sources of checkpoints.
#include "server/coordinator/worker/checkpoint_peers.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "proto/job_state.h"
#include "server/coordinator/job/job_checkpoints.h"

namespace comera::server {
namespace {

constexpr int kMaxSources = 16;
// Workers come and go in crowds.
constexpr absl::Duration kAnnouncementInterval = absl::Seconds(2);

// Spreads jobs over the workers, the same way on every coordinator.
uint64_t Score(const std::string& job, const std::string& worker) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const std::string* text : {&job, &worker}) {
    for (char c : *text) {
      hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    }
  }
  return hash;
}

void SetPeer(const WorkerState& worker, v1::Peer* peer) {
  peer->set_worker(worker.id());
  peer->set_address(worker.peer_address());
}

}  // namespace

void CheckpointPeers::ApplyHeld(const v1::SynchronizeRequest& request,
                                WorkerState& worker,
                                v1::SynchronizeResponse* response,
                                Operation* op) {
  if (request.peer_address().empty() && request.checkpoints_size() == 0) {
    worker.SetCheckpoints({});
    return;
  }
  WorkerState::Checkpoints held;
  for (const v1::HeldCheckpoint& one : request.checkpoints()) {
    held[one.job()].push_back(one);
  }
  std::set<std::string> jobs;
  for (const auto& [job, checkpoints] : held) jobs.insert(job);
  for (const auto& [job, old] : worker.checkpoints()) jobs.insert(job);
  worker.SetCheckpoints(std::move(held));
  for (const std::string& name : jobs) {
    JobEntry* entry = jobs_->Find(name);
    if (entry == nullptr) continue;
    const auto own = worker.checkpoints().find(name);
    const bool holds = own != worker.checkpoints().end();
    if (holds && IsFinal(entry->state())) response->add_ended_jobs(name);
    if (UpdateHeld(worker.id(),
                   holds ? own->second : std::vector<v1::HeldCheckpoint>(),
                   &entry->mutable_job())) {
      entry->MarkChanged(op);
    }
  }
}

void CheckpointPeers::AssignPeers(const JobEntry& entry,
                                  const WorkerState& worker,
                                  v1::MemberAssignment* assignment) const {
  std::set<std::string> gang;
  for (const GangMember& member : entry.attempt().members()) {
    gang.insert(member.worker());
  }
  // Other machines come first, and among them those of the gang: they are
  // likely to be part of the next one.
  std::vector<std::tuple<bool, bool, uint64_t, const WorkerState*>> candidates;
  for (const auto& [id, other] : workers_->workers()) {
    if (id == worker.id() || !other.IsReachable() ||
        !other.CanBeReachedFrom(worker.host())) {
      continue;
    }
    candidates.emplace_back(other.host() == worker.host(), gang.count(id) == 0,
                            Score(entry.name(), id), &other);
    if (assignment->resume() && other.HoldsCheckpoint(entry.name()) &&
        assignment->sources_size() < kMaxSources) {
      SetPeer(other, assignment->add_sources());
    }
  }
  const size_t wanted = std::min<size_t>(
      candidates.size(), entry.job().spec().checkpoint().replicas());
  std::partial_sort(candidates.begin(), candidates.begin() + wanted,
                    candidates.end());
  for (size_t i = 0; i < wanted; ++i) {
    SetPeer(*std::get<3>(candidates[i]), assignment->add_replicas());
  }
}

bool CheckpointPeers::HasReachableHolder(const v1::Job& job) const {
  if (job.checkpoints().empty()) return true;
  const v1::Checkpoint& newest = *job.checkpoints().rbegin();
  return newest.durable() ||
         std::any_of(newest.workers().begin(), newest.workers().end(),
                     [&](const std::string& id) {
                       const WorkerState* worker = workers_->Find(id);
                       return worker != nullptr && worker->IsReachable();
                     });
}

void CheckpointPeers::Announce(Operation* op) {
  if (!peers_changed_ || op->now() < next_announcement_) return;
  peers_changed_ = false;
  next_announcement_ = op->now() + kAnnouncementInterval;
  for (const auto& [name, entry] : jobs_->index().active()) {
    const Attempt& attempt = entry->attempt();
    if (!attempt.members().empty() && attempt.IsWanted(attempt.members()[0])) {
      workers_->MarkChanged(attempt.members()[0].worker(), op);
    }
  }
}

}  // namespace comera::server
