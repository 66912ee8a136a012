// Implements CheckpointPeers: holders, replicas and sources of checkpoints.
#include "server/coordinator/worker/checkpoint_peers.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "comera/v1/peer_service.pb.h"
#include "common/call_metadata.h"
#include "common/seal.h"
#include "proto/job_state.h"
#include "server/coordinator/job/job_checkpoints.h"
#include "server/coordinator/job/training_lineage.h"

namespace comera::server {
namespace {

constexpr int kMaxSources = 16;
// Workers come and go in crowds.
constexpr absl::Duration kAnnouncementInterval = absl::Seconds(2);

// Copies are spread over so many workers of a job's neighbourhood.
constexpr size_t kNeighbours = 64;

// Spreads jobs over the workers, the same way on every coordinator.
uint64_t Score(const std::string& job, const std::string& worker) {
  return SpreadText(worker, SpreadText(job));
}

// How long a worker's key is used for new grants.
constexpr absl::Duration kGrantPeriod = absl::Minutes(10);

// The key of one worker and period.
std::string GrantKey(const std::string& secret, const WorkerState& worker) {
  return DeriveKey(secret,
                   absl::StrCat(worker.id(), " ", worker.grant_period()));
}

}  // namespace

std::string CheckpointPeers::RenewGrantKey(absl::Time now,
                                           WorkerState* worker) const {
  worker->SetGrantPeriod(absl::ToUnixSeconds(now) /
                         absl::ToInt64Seconds(kGrantPeriod));
  return absl::WebSafeBase64Escape(GrantKey(secret_, *worker));
}

void CheckpointPeers::SetPeer(const JobEntry& entry, const WorkerState& worker,
                              v1::Peer* peer) const {
  peer->set_worker(worker.id());
  peer->set_address(worker.peer_address());
  v1::PeerGrant grant;
  grant.set_job(entry.name());
  grant.set_attempt(entry.attempt().number());
  peer->set_grant(Seal(absl::WebSafeBase64Escape(GrantKey(secret_, worker)),
                       kPeerGrantPurpose, grant.SerializeAsString()));
}

void CheckpointPeers::ApplyHeld(const v1::SynchronizeRequest& request,
                                WorkerState& worker,
                                v1::SynchronizeResponse* response,
                                Operation* op) {
  WorkerState::Checkpoints held;
  for (const v1::HeldCheckpoint& one : request.checkpoints()) {
    held[one.job()].push_back(one);
  }
  const WorkerState::Checkpoints before =
      worker.SetCheckpoints(std::move(held));
  std::set<std::string> jobs;
  for (const auto& [job, own] : before) {
    jobs.insert(job);
    if (worker.checkpoints().count(job) > 0) continue;
    std::set<std::string>& holders = holders_[job];
    holders.erase(worker.id());
    if (holders.empty()) holders_.erase(job);
  }
  for (const auto& [job, own] : worker.checkpoints()) {
    jobs.insert(job);
    holders_[job].insert(worker.id());
  }
  for (const std::string& name : jobs) {
    const auto old = before.find(name);
    ApplyToJob(
        name, worker,
        old == before.end() ? std::vector<v1::HeldCheckpoint>() : old->second,
        response, op);
  }
}

void CheckpointPeers::ApplyToJob(const std::string& name,
                                 const WorkerState& worker,
                                 const std::vector<v1::HeldCheckpoint>& before,
                                 v1::SynchronizeResponse* response,
                                 Operation* op) {
  JobEntry* entry = jobs_->Find(name);
  if (entry == nullptr) return;
  HeldReport report;
  report.worker = worker.id();
  const auto own = worker.checkpoints().find(name);
  if (own != worker.checkpoints().end()) {
    report.held = own->second;
    if (IsFinal(entry->state())) response->add_ended_jobs(name);
  }
  if (MayHaveExpired(report.held, entry->job())) {
    std::vector<v1::HeldCheckpoint> known;
    for (const WorkerState* holder : Holders(name)) {
      const auto& own = holder->checkpoints().at(name);
      known.insert(known.end(), own.begin(), own.end());
    }
    for (v1::HeldCheckpoint& held :
         ExpiredStates(report.held, known, entry->lineage(), entry->job())) {
      *response->add_expired() = std::move(held);
    }
  }
  for (const v1::HeldCheckpoint& old : before) {
    if (old.place() == v1::HeldCheckpoint::DURABLE && !IsDurable(name, old)) {
      report.no_longer_durable.push_back(old);
    }
  }
  if (UpdateHeld(report, &entry->mutable_job())) entry->MarkChanged(op);
  if (entry->state() == v1::QUEUED && entry->holder_wait()) {
    op->RequestSchedule();
  }
}

bool CheckpointPeers::IsDurable(const std::string& job,
                                const v1::HeldCheckpoint& held) const {
  for (const WorkerState* worker : Holders(job)) {
    for (const v1::HeldCheckpoint& one : worker->checkpoints().at(job)) {
      if (one.place() == v1::HeldCheckpoint::DURABLE &&
          SameState(one.attempt(), one.step(), held.attempt(), held.step())) {
        return true;
      }
    }
  }
  return false;
}

std::vector<const WorkerState*> CheckpointPeers::Holders(
    const std::string& job) const {
  std::vector<const WorkerState*> found;
  const auto known = holders_.find(job);
  if (known == holders_.end()) return found;
  for (const std::string& id : known->second) {
    const WorkerState* worker = workers_->Find(id);
    if (worker != nullptr && worker->checkpoints().count(job) > 0) {
      found.push_back(worker);
    }
  }
  return found;
}

void CheckpointPeers::AssignPeers(const JobEntry& entry,
                                  const WorkerState& worker,
                                  v1::MemberAssignment* assignment) const {
  AddReplicas(entry, worker, assignment);
  if (!assignment->resume()) return;
  for (const WorkerState* holder : Holders(entry.name())) {
    if (holder == &worker || !holder->IsReachable() ||
        !holder->CanBeReachedFrom(worker.host()) ||
        assignment->sources_size() >= kMaxSources) {
      continue;
    }
    const bool holds =
        assignment->has_start()
            ? holder->HoldsState(entry.name(), assignment->start())
            : holder->HoldsCheckpoint(entry.name());
    if (holds) SetPeer(entry, *holder, assignment->add_sources());
  }
}

void CheckpointPeers::AddReplicas(const JobEntry& entry,
                                  const WorkerState& worker,
                                  v1::MemberAssignment* assignment) const {
  std::set<const WorkerState*> gang;
  for (const GangMember& member : entry.attempt().members()) {
    gang.insert(workers_->Find(member.worker()));
  }
  std::set<const WorkerState*> near = gang;
  for (const WorkerState* other :
       workers_->Neighbours(entry.name(), kNeighbours)) {
    near.insert(other);
  }
  std::vector<std::tuple<bool, bool, uint64_t, const WorkerState*>> candidates;
  for (const WorkerState* other : near) {
    if (other == nullptr || other == &worker || !other->IsReachable() ||
        !other->CanBeReachedFrom(worker.host())) {
      continue;
    }
    candidates.emplace_back(other->host() == worker.host(),
                            gang.count(other) == 0,
                            Score(entry.name(), other->id()), other);
  }
  const size_t wanted = std::min<size_t>(
      candidates.size(), entry.job().spec().checkpoint().replicas());
  std::partial_sort(candidates.begin(), candidates.begin() + wanted,
                    candidates.end());
  for (size_t i = 0; i < wanted; ++i) {
    SetPeer(entry, *std::get<3>(candidates[i]), assignment->add_replicas());
  }
}

void CheckpointPeers::Forget(const std::string& worker) {
  for (auto held = holders_.begin(); held != holders_.end();) {
    held->second.erase(worker);
    held = held->second.empty() ? holders_.erase(held) : std::next(held);
  }
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
