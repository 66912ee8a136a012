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
#include "server/coordinator/job/state_holders.h"
#include "server/coordinator/job/training_lineage.h"

namespace comera::server {
namespace {

constexpr size_t kMaxSources = 16;
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

// The newest one there that the job's member 0 has announced.
StateNumber NewestOnDisk(const std::vector<v1::HeldCheckpoint>& held,
                         const v1::Job& job) {
  StateNumber newest = kNoState;
  for (const v1::HeldCheckpoint& one : held) {
    if (one.place() != v1::HeldCheckpoint::DISK || !IsAnnounced(one, job)) {
      continue;
    }
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
  std::vector<const v1::HeldCheckpoint*> listed;
  std::set<std::string> jobs;
  // A job's states come one after the other.
  const v1::HeldCheckpoint* last = nullptr;
  bool may_hold = false;
  for (const v1::HeldCheckpoint& one : request.checkpoints()) {
    if (one.place() == v1::HeldCheckpoint::DURABLE) {
      listed.push_back(&one);
      continue;
    }
    if (last == nullptr || last->job() != one.job()) {
      const JobEntry* entry = jobs_->Find(one.job());
      may_hold =
          entry == nullptr || MayHoldStates(entry->record(), worker.id());
      jobs.insert(one.job());
    }
    last = &one;
    if (may_hold) held[one.job()].push_back(one);
  }
  const WorkerState::Checkpoints before =
      worker.SetCheckpoints(std::move(held));
  Report report = {worker, response, op, jobs, {}, {}, {}};
  for (const auto& [job, own] : before) {
    jobs.insert(job);
    report.held_before.insert(job);
    if (worker.checkpoints().count(job) > 0) continue;
    std::set<std::string>& holders = holders_[job];
    holders.erase(worker.id());
    if (holders.empty()) holders_.erase(job);
  }
  for (const auto& [job, own] : worker.checkpoints()) {
    holders_[job].insert(worker.id());
  }
  report.stored = store_.Apply(worker, listed, op->now());
  for (const auto& [job, gone] : report.stored.gone) jobs.insert(job);
  for (const std::string& name : jobs) ApplyToJob(name, &report);
  last = nullptr;
  for (const v1::HeldCheckpoint* one : listed) {
    if (last != nullptr && last->job() == one->job()) continue;
    last = one;
    if (jobs.count(one->job()) == 0) ApplyToJob(one->job(), &report);
  }
}

void CheckpointPeers::ApplyToJob(const std::string& name, Report* report) {
  JobEntry* entry = jobs_->Find(name);
  if (entry == nullptr) return ExpireForgotten(name, report);
  Operation* const op = report->op;
  const bool over = AreOver(*entry, op->now(), &report->started_from);
  const WorkerState& worker = report->worker;
  HeldReport held;
  held.worker = worker.id();
  const auto own = worker.checkpoints().find(name);
  const bool holds = own != worker.checkpoints().end();
  if (holds) held.held = own->second;
  // Whether its word counts or not, a worker may remove what it has of a job
  // that is over.
  if ((over && report->holds_now.count(name) > 0) ||
      (!over && holds && HoldsSpareCopies(*entry, *report))) {
    report->response->add_ended_jobs(name);
  }
  if (const auto gone = report->stored.gone.find(name);
      gone != report->stored.gone.end()) {
    held.no_longer_durable = gone->second;
  }
  size_t listed = 0;
  std::vector<v1::HeldCheckpoint> stored =
      Stored(*entry, report->stored.lister, &listed);
  if (MayHaveExpired(listed, entry->job(), over)) {
    ExpireStored(*entry, over, report, &held);
    stored = Stored(*entry);
  }
  AddStored(*entry, op->now(), std::move(stored), &held);
  if (UpdateHeld(held, over, &entry->mutable_job())) {
    entry->MarkChanged(op);
  }
  // What others have listed says nothing new of it.
  if (entry->state() == v1::QUEUED && entry->holder_wait() &&
      (holds || report->held_before.count(name) > 0 ||
       report->stored.found.count(name) > 0)) {
    op->RequestSchedule();
  }
}

void CheckpointPeers::ExpireStored(const JobEntry& entry, bool over,
                                   Report* report, HeldReport* held) {
  const std::string& name = entry.name();
  const size_t lister = report->stored.lister;
  for (v1::HeldCheckpoint& expired :
       ExpiredStates(store_.ListedBy(lister, name),
                     store_.ListedBy(lister, name, /*deleted=*/false),
                     entry.lineage(), entry.job(), over)) {
    if (!store_.MustDelete(name, expired, report->worker, report->op->now())) {
      continue;
    }
    expired.set_job(name);
    held->no_longer_durable.push_back(expired);
    *report->response->add_expired() = std::move(expired);
  }
}

std::vector<v1::HeldCheckpoint> CheckpointPeers::Stored(const JobEntry& entry,
                                                        size_t lister,
                                                        size_t* listed) const {
  return store_.FindBelieved(
      entry.name(), [&] { return StateHolders(entry.record()); },
      [&](const v1::HeldCheckpoint& held) {
        return IsAnnounced(held, entry.job());
      },
      lister, listed);
}

void CheckpointPeers::AddStored(const JobEntry& entry, absl::Time now,
                                std::vector<v1::HeldCheckpoint> stored,
                                HeldReport* held) {
  const auto& aside = entry.aside();
  for (v1::HeldCheckpoint& one : stored) {
    // An attempt looked for it a moment ago.
    if (aside && !aside->for_room && now < aside->until &&
        SameState(aside->state.attempt(), aside->state.step(), one.attempt(),
                  one.step())) {
      held->unreachable.push_back(std::move(one));
    } else {
      held->held.push_back(std::move(one));
    }
  }
}

void CheckpointPeers::ReviewStore(Operation* op) {
  StartedFrom started_from;
  for (auto& [name, gone] : store_.Review(op->now())) {
    JobEntry* entry = jobs_->Find(name);
    if (entry == nullptr || gone.empty()) continue;
    // The report is no worker's, so that holders stay as they are.
    HeldReport held;
    held.no_longer_durable = std::move(gone);
    AddStored(*entry, op->now(), Stored(*entry), &held);
    const bool over = AreOver(*entry, op->now(), &started_from);
    if (UpdateHeld(held, over, &entry->mutable_job())) {
      entry->MarkChanged(op);
    }
  }
}

void CheckpointPeers::ExpireForgotten(const std::string& job, Report* report) {
  // A job that was never known here may be that of a newer database.
  if (!forgotten_.Contains(job)) return;
  if (report->worker.checkpoints().count(job) > 0) {
    report->response->add_ended_jobs(job);
  }
  for (v1::HeldCheckpoint& held : store_.ListedBy(report->stored.lister, job)) {
    if (!store_.MustDelete(job, held, report->worker, report->op->now())) {
      continue;
    }
    held.set_job(job);
    *report->response->add_expired() = std::move(held);
  }
}

bool CheckpointPeers::AreOver(const JobEntry& entry, absl::Time now,
                              StartedFrom* started_from) const {
  if (!AreStatesOver(entry.job(),
                     options_->keep_checkpoints + options_->clock_lead, now)) {
    return false;
  }
  if (*started_from) return (*started_from)->count(entry.name()) == 0;
  std::set<std::string>& jobs = started_from->emplace();
  const auto add = [&](const JobEntry& other) {
    const auto start =
        ParseCheckpointName(other.job().spec().start_from().checkpoint());
    if (start) jobs.insert(JobName(start->first));
  };
  for (const JobEntry* other : jobs_->index().Queued()) add(*other);
  for (const auto& [name, other] : jobs_->index().active()) add(*other);
  return jobs.count(entry.name()) == 0;
}

bool CheckpointPeers::HoldsSpareCopies(const JobEntry& entry,
                                       const Report& report) const {
  if (!IsFinal(entry.state())) return false;
  const std::string& name = entry.name();
  const v1::Job& job = entry.job();
  const auto& own = report.worker.checkpoints().at(name);
  std::vector<const WorkerState*> disks;
  for (const std::string& id : StateRunners(entry.record())) {
    const WorkerState* runner = workers_->Find(id);
    if (runner != nullptr && runner->IsReachable() &&
        runner->checkpoints().count(name) > 0) {
      disks.push_back(runner);
    }
  }
  // Workers whose disks have the newest state keep all that they have, so that
  // no two of them leave it to each other.
  StateNumber newest = kNoState;
  for (const WorkerState* disk : disks) {
    newest = std::max(newest, NewestOnDisk(disk->checkpoints().at(name), job));
  }
  if (newest != kNoState && NewestOnDisk(own, job) == newest) return false;
  // A copy goes for ever, so it goes only for what member 0 has announced, and
  // not by the word of workers that had nothing to do with the job.
  std::vector<StateNumber> safe;
  const auto add = [&](const v1::HeldCheckpoint& held) {
    if (IsAnnounced(held, job)) safe.push_back(NumberOf(held));
  };
  std::vector<std::string> listers = StateRunners(entry.record());
  listers.push_back(report.worker.id());
  for (const auto& stored : store_.FindListedBy(name, listers)) add(stored);
  for (const WorkerState* disk : disks) {
    const auto& held = disk->checkpoints().at(name);
    if (NewestOnDisk(held, job) != newest) continue;
    for (const v1::HeldCheckpoint& one : held) {
      if (one.place() == v1::HeldCheckpoint::DISK) add(one);
    }
  }
  bool has_copies = false;
  for (const v1::HeldCheckpoint& held : own) {
    const bool copy = held.place() == v1::HeldCheckpoint::MEMORY;
    if (!copy && held.place() != v1::HeldCheckpoint::DISK) continue;
    if (!IsSpare(held, safe, job)) return false;
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
                                  v1::MemberAssignment* assignment,
                                  Operation* op) const {
  AddReplicas(entry, worker, assignment);
  for (const v1::Peer& replica : assignment->replicas()) {
    jobs_->Find(entry.name())->NoteKeeper(replica.worker(), op);
  }
  const bool elsewhere = !assignment->start_job().empty();
  if (!assignment->resume() && !elsewhere) return;
  JobEntry* source =
      jobs_->Find(elsewhere ? assignment->start_job() : entry.name());
  if (source == nullptr) return;
  // What it fetches stays on its disk.
  if (elsewhere) source->NoteKeeper(worker.id(), op);
  const std::vector<std::string> runners = StateRunners(source->record());
  std::vector<const WorkerState*> holders;
  for (const WorkerState* holder : Holders(source->name())) {
    const bool holds =
        assignment->has_start()
            ? holder->HoldsState(source->name(), assignment->start())
            : holder->HoldsCheckpoint(source->name());
    if (holds && holder != &worker && holder->IsReachable() &&
        holder->CanBeReachedFrom(worker.host())) {
      holders.push_back(holder);
    }
  }
  // Workers that ran the job come first: they have what they saved themselves.
  std::stable_partition(
      holders.begin(), holders.end(), [&](const WorkerState* holder) {
        return std::find(runners.begin(), runners.end(), holder->id()) !=
               runners.end();
      });
  if (holders.size() > kMaxSources) holders.resize(kMaxSources);
  for (const WorkerState* holder : holders) {
    SetPeer(*source, *holder, assignment->add_sources());
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
  store_.Retire(worker);
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
