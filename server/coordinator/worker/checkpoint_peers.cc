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
#include "proto/resource_names.h"
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

// The attempt that saved a state, and its step.
using StateNumber = std::pair<int64_t, int64_t>;
constexpr StateNumber kNoState{-1, -1};

StateNumber NumberOf(const v1::HeldCheckpoint& held) {
  return {held.attempt(), held.step()};
}

StateNumber NewestOnDisk(const std::vector<v1::HeldCheckpoint>& held) {
  StateNumber newest = kNoState;
  for (const v1::HeldCheckpoint& one : held) {
    if (one.place() != v1::HeldCheckpoint::DISK) continue;
    newest = std::max(newest, NumberOf(one));
  }
  return newest;
}

// Whether the job can do without this one, as the `safe` ones stay: one of them
// is the same, or a newer one is safe and clients are not told of this one.
bool IsSpare(const v1::HeldCheckpoint& held,
             const std::vector<StateNumber>& safe, const v1::Job& job) {
  const auto same = [&](int64_t attempt, int64_t step) {
    return SameState(attempt, step, held.attempt(), held.step());
  };
  if (std::any_of(safe.begin(), safe.end(), [&](const StateNumber& one) {
        return same(one.first, one.second);
      })) {
    return true;
  }
  return std::any_of(safe.begin(), safe.end(),
                     [&](const StateNumber& one) {
                       return one.first >= held.attempt() &&
                              one.second > held.step();
                     }) &&
         std::none_of(job.checkpoints().begin(), job.checkpoints().end(),
                      [&](const v1::Checkpoint& named) {
                        return same(named.attempt(), named.step());
                      });
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
  return absl::WebSafeBase64Escape(GrantKey(options_->peer_key, *worker));
}

void CheckpointPeers::SetPeer(const JobEntry& entry, const WorkerState& worker,
                              v1::Peer* peer) const {
  peer->set_worker(worker.id());
  peer->set_address(worker.peer_address());
  v1::PeerGrant grant;
  grant.set_job(entry.name());
  grant.set_attempt(entry.attempt().number());
  peer->set_grant(
      Seal(absl::WebSafeBase64Escape(GrantKey(options_->peer_key, worker)),
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
  if (entry == nullptr) return ExpireForgotten(name, worker, response);
  const bool over =
      AreStatesOver(entry->job(),
                    options_->keep_checkpoints + options_->clock_lead,
                    op->now()) &&
      !IsStartedFrom(name);
  HeldReport report;
  report.worker = worker.id();
  const auto own = worker.checkpoints().find(name);
  if (own != worker.checkpoints().end()) {
    report.held = own->second;
    if (over || HoldsSpareCopies(*entry, worker)) {
      response->add_ended_jobs(name);
    }
  }
  if (MayHaveExpired(report.held, entry->job(), over)) {
    std::vector<v1::HeldCheckpoint> known;
    for (const WorkerState* holder : Holders(name)) {
      const auto& own = holder->checkpoints().at(name);
      known.insert(known.end(), own.begin(), own.end());
    }
    for (v1::HeldCheckpoint& held : ExpiredStates(
             report.held, known, entry->lineage(), entry->job(), over)) {
      *response->add_expired() = std::move(held);
    }
  }
  for (const v1::HeldCheckpoint& old : before) {
    if (old.place() == v1::HeldCheckpoint::DURABLE && !IsDurable(name, old)) {
      report.no_longer_durable.push_back(old);
    }
  }
  if (UpdateHeld(report, over, &entry->mutable_job())) {
    entry->MarkChanged(op);
  }
  if (entry->state() == v1::QUEUED && entry->holder_wait()) {
    op->RequestSchedule();
  }
}

void CheckpointPeers::ExpireForgotten(const std::string& job,
                                      const WorkerState& worker,
                                      v1::SynchronizeResponse* response) const {
  const auto own = worker.checkpoints().find(job);
  // A job that was never known here may be that of a newer database.
  if (!forgotten_.Contains(job) || own == worker.checkpoints().end()) return;
  response->add_ended_jobs(job);
  for (const v1::HeldCheckpoint& held : own->second) {
    if (held.place() == v1::HeldCheckpoint::DURABLE) {
      *response->add_expired() = held;
    }
  }
}

bool CheckpointPeers::IsStartedFrom(const std::string& job) const {
  const auto starts_from_it = [&](const JobEntry* entry) {
    const auto start =
        ParseCheckpointName(entry->job().spec().start_from().checkpoint());
    return start && JobName(start->first) == job;
  };
  const std::vector<JobEntry*> queued = jobs_->index().Queued();
  const auto& active = jobs_->index().active();
  return std::any_of(queued.begin(), queued.end(), starts_from_it) ||
         std::any_of(active.begin(), active.end(), [&](const auto& one) {
           return starts_from_it(one.second);
         });
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

bool CheckpointPeers::HoldsSpareCopies(const JobEntry& entry,
                                       const WorkerState& worker) const {
  if (!IsFinal(entry.state())) return false;
  const auto& own = worker.checkpoints().at(entry.name());
  // Workers whose disks have the newest state keep all that they have, so that
  // no two of them leave it to each other.
  StateNumber newest = kNoState;
  for (const WorkerState* holder : Holders(entry.name())) {
    if (!holder->IsReachable()) continue;
    newest =
        std::max(newest, NewestOnDisk(holder->checkpoints().at(entry.name())));
  }
  if (newest != kNoState && NewestOnDisk(own) == newest) return false;
  std::vector<StateNumber> safe;
  for (const WorkerState* holder : Holders(entry.name())) {
    const auto& held = holder->checkpoints().at(entry.name());
    const bool keeps = holder->IsReachable() && NewestOnDisk(held) == newest;
    for (const v1::HeldCheckpoint& one : held) {
      if (one.place() == v1::HeldCheckpoint::DURABLE ||
          (keeps && one.place() == v1::HeldCheckpoint::DISK)) {
        safe.push_back(NumberOf(one));
      }
    }
  }
  bool has_copies = false;
  for (const v1::HeldCheckpoint& held : own) {
    const bool copy = held.place() == v1::HeldCheckpoint::MEMORY;
    if (!copy && held.place() != v1::HeldCheckpoint::DISK) continue;
    if (!IsSpare(held, safe, entry.job())) return false;
    has_copies = has_copies || copy;
  }
  return has_copies;
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
  const bool elsewhere = !assignment->start_job().empty();
  if (!assignment->resume() && !elsewhere) return;
  const JobEntry* source =
      elsewhere ? jobs_->Find(assignment->start_job()) : &entry;
  if (source == nullptr) return;
  for (const WorkerState* holder : Holders(source->name())) {
    if (holder == &worker || !holder->IsReachable() ||
        !holder->CanBeReachedFrom(worker.host()) ||
        assignment->sources_size() >= kMaxSources) {
      continue;
    }
    const bool holds =
        assignment->has_start()
            ? holder->HoldsState(source->name(), assignment->start())
            : holder->HoldsCheckpoint(source->name());
    if (holds) SetPeer(*source, *holder, assignment->add_sources());
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
