// What workers report, and what they are answered.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/text.h"
#include "proto/resource_names.h"
#include "server/coordinator/attempt.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/job_checkpoints.h"
#include "server/coordinator/progress_update.h"
#include "server/coordinator/synchronize_validation.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

constexpr size_t kMaxRetired = 16;
constexpr size_t kMaxTailBytes = 4096;

bool SameSlots(const std::vector<v1::Slot>& a,
               const google::protobuf::RepeatedPtrField<v1::Slot>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const v1::Slot& x, const v1::Slot& y) {
                      return x.index() == y.index() &&
                             x.device() == y.device() && x.unfit() == y.unfit();
                    });
}

}  // namespace

WorkerState* Coordinator::Admit(const v1::SynchronizeRequest& request,
                                int64_t call, absl::Time now,
                                Effects* effects) {
  absl::Status status = ValidateSynchronize(request);
  WorkerState* worker = nullptr;
  if (status.ok()) {
    worker = workers_.FindOrAdd(request.worker());
    if (worker == nullptr) {
      status = absl::ResourceExhaustedError("too many workers");
    } else if (std::find(worker->retired.begin(), worker->retired.end(),
                         request.incarnation()) != worker->retired.end()) {
      status =
          absl::AbortedError(absl::StrCat("another incarnation of worker ",
                                          request.worker(), " has taken over"));
    }
  }
  if (!status.ok()) {
    effects->replies.push_back({call, status});
    return nullptr;
  }
  if (worker->incarnation != request.incarnation()) {
    if (!worker->incarnation.empty()) {
      worker->retired.push_back(worker->incarnation);
      if (worker->retired.size() > kMaxRetired) worker->retired.pop_front();
    }
    worker->incarnation = request.incarnation();
    if (worker->held) {
      effects->replies.push_back(
          {worker->held->call, absl::AbortedError(absl::StrCat(
                                   "another incarnation of worker ",
                                   request.worker(), " has taken over"))});
      worker->held.reset();
    }
    LoseMembers(*worker, "was restarted", now, effects);
  }
  return worker;
}

void Coordinator::Synchronize(const v1::SynchronizeRequest& request,
                              const std::vector<v1::LogAck>& log_acks,
                              int64_t call, absl::Time now, Effects* effects) {
  WorkerState* worker = Admit(request, call, now, effects);
  if (worker == nullptr) return Finish(now, effects);
  // A newer call replaces the one that waits.
  if (worker->held) ReplyHeld(*worker, now, effects);
  if (!worker->attached || worker->lost ||
      now - worker->last_seen > options_.suspect_after ||
      !SameSlots(worker->slots, request.slots())) {
    needs_schedule_ = true;
  }
  if (worker->peer_address != request.peer_address() ||
      (!worker->peer_address.empty() && (!worker->attached || worker->lost))) {
    peers_changed_ = true;
  }
  worker->attached = true;
  worker->lost = false;
  worker->last_seen = now;
  worker->host = request.host();
  worker->rack = request.rack();
  NoteUnfit(*worker, request, now);
  worker->version = request.version();
  worker->slots.assign(request.slots().begin(), request.slots().end());

  v1::SynchronizeResponse response;
  TakeRendezvous(request);
  // Reports first: an attempt that ends takes no more of them.
  TakeReports(request, now, effects, &response);
  TakeCheckpoints(request, *worker, &response);
  TakeRanks(request, *worker, now, effects);
  AddForget(request, &response);
  for (const v1::LogAck& ack : log_acks) *response.add_log_acks() = ack;

  const bool has_acks =
      response.report_acks_size() > 0 || response.log_acks_size() > 0 ||
      response.forget_size() > 0 || response.missing_models_size() > 0 ||
      response.ended_jobs_size() > 0;
  const absl::Duration hold =
      std::min(FromProtoDuration(request.hold()), options_.max_hold);
  if (has_acks || hold <= absl::ZeroDuration() ||
      request.seen_version() != worker->desired_version) {
    FillDesired(*worker, &response);
    effects->replies.push_back({call, std::move(response)});
  } else {
    worker->held = HeldCall{call, now + hold};
  }
  Finish(now, effects);
}

JobEntry* Coordinator::FindAttempt(const std::string& job, int64_t attempt) {
  JobEntry* entry = jobs_.Find(job);
  if (entry == nullptr || !IsActive(entry->job().state()) ||
      entry->job().attempt() != attempt) {
    return nullptr;
  }
  return entry;
}

void Coordinator::TakeRanks(const v1::SynchronizeRequest& request,
                            WorkerState& worker, absl::Time now,
                            Effects* effects) {
  std::set<int32_t> occupied;
  for (const v1::MemberStatus& status : request.members()) {
    if (status.phase() != v1::MemberStatus::EXITED) {
      occupied.insert(status.slot());
    }
    JobEntry* entry = FindAttempt(status.job(), status.attempt());
    if (entry == nullptr || status.rank() < 0 ||
        status.rank() >= entry->record.attempt().members_size()) {
      continue;
    }
    const AttemptMember& rank = entry->record.attempt().members(status.rank());
    if (rank.worker() != worker.id ||
        rank.incarnation() != worker.incarnation || rank.lost()) {
      continue;
    }
    TakeRank(status, *entry, now, effects);
  }
  if (occupied != worker.occupied) {
    worker.occupied = std::move(occupied);
    needs_schedule_ = true;
  }
  const std::set<std::string> jobs = worker.jobs;
  for (const std::string& name : jobs) {
    JobEntry& entry = *jobs_.Find(name);
    TakeMissingRanks(request, entry, now, effects);
    CheckHang(entry, now, effects);
    Advance(entry, now, effects);
  }
}

void Coordinator::TakeRank(const v1::MemberStatus& status, JobEntry& entry,
                           absl::Time now, Effects* effects) {
  AttemptMember& rank =
      *entry.record.mutable_attempt()->mutable_members(status.rank());
  MemberWatch& watch = entry.ranks[status.rank()];
  watch.last_listed = now;
  entry.hang.Observe(status, now);
  if (status.phase() <= rank.phase()) return;
  rank.set_phase(status.phase());
  Change(entry);
  if (status.phase() != v1::MemberStatus::EXITED) return;
  Touch(rank.worker());
  needs_schedule_ = true;
  if (status.rank() == 0 && status.has_result()) {
    const auto is_own = [&](const v1::Artifact& model) {
      const auto ids = ParseArtifactName(model.name());
      return ids && JobName(ids->first) == entry.job().name();
    };
    if ((status.model().name().empty() || is_own(status.model())) &&
        std::all_of(status.target_models().begin(),
                    status.target_models().end(), is_own)) {
      *rank.mutable_result() = status.result();
      *rank.mutable_model() = status.model();
      *rank.mutable_target_models() = status.target_models();
    } else {
      AddFailure(entry, v1::INTERNAL, 0,
                 absl::StrCat("worker ", rank.worker(),
                              " reported a model outside the job"),
                 now, effects);
    }
  } else if (status.has_failure()) {
    v1::Failure failure = status.failure();
    failure.set_rank(status.rank());
    RecordFailure(entry, std::move(failure), now, effects);
  }
  // What was found out about it from outside had no log with it.
  for (v1::Failure& failure :
       *entry.record.mutable_attempt()->mutable_failures()) {
    if (failure.rank() == status.rank() && failure.log_tail().empty()) {
      failure.set_log_tail(TruncateUtf8(status.log_tail(), kMaxTailBytes));
    }
  }
}

void Coordinator::TakeMissingRanks(const v1::SynchronizeRequest& request,
                                   JobEntry& entry, absl::Time now,
                                   Effects* effects) {
  std::set<int32_t> listed;
  bool older_lives = false;
  for (const v1::MemberStatus& status : request.members()) {
    if (status.job() != entry.job().name()) continue;
    if (status.attempt() == entry.job().attempt()) {
      listed.insert(status.rank());
    } else if (status.phase() != v1::MemberStatus::EXITED) {
      older_lives = true;
    }
  }
  Attempt& attempt = *entry.record.mutable_attempt();
  for (int i = 0; i < attempt.members_size(); ++i) {
    AttemptMember& rank = *attempt.mutable_members(i);
    if (rank.worker() != request.worker() || Ended(rank) ||
        listed.count(i) > 0) {
      continue;
    }
    MemberWatch& watch = entry.ranks[i];
    // The worker starts none before a given-up one's process is gone, which
    // takes up to its grace period; start_deadline bounds the wait.
    if (older_lives) watch.last_listed = now;
    if (attempt.stopping()) {
      // The worker has seen that the rank is not wanted, and has none: it
      // never started.
      if (request.seen_version() < watch.stop_version) continue;
      rank.set_lost(true);
      Change(entry);
    } else if (request.seen_version() >= watch.start_version &&
               now - watch.last_listed > options_.missing_rank_after) {
      rank.set_lost(true);
      AddFailure(entry, v1::RANK_LOST, i,
                 absl::StrCat("worker ", rank.worker(), " has no member ", i),
                 now, effects);
    }
  }
}

void Coordinator::TakeReports(const v1::SynchronizeRequest& request,
                              absl::Time now, Effects* effects,
                              v1::SynchronizeResponse* response) {
  std::map<std::pair<std::string, int64_t>, int64_t> acks;
  for (const v1::ProgressReport& report : request.reports()) {
    const auto [own, first] =
        acks.emplace(std::make_pair(report.job(), report.attempt()), 0);
    int64_t& ack = own->second;
    JobEntry* entry = FindAttempt(report.job(), report.attempt());
    const AttemptMember* rank0 =
        entry != nullptr ? &entry->record.attempt().members(0) : nullptr;
    if (rank0 == nullptr || rank0->worker() != request.worker() ||
        rank0->incarnation() != request.incarnation()) {
      // Nobody wants it any more: the worker may drop it.
      ack = std::max(ack, report.number());
      continue;
    }
    Attempt& attempt = *entry->record.mutable_attempt();
    // Workers begin with the first that was not acknowledged. If that is too
    // late, this is the record of a backup: what is between is gone for good.
    const bool missed = first && report.number() > attempt.last_report();
    if (missed || report.number() == attempt.last_report() + 1) {
      attempt.set_last_report(report.number());
      if (report.event().has_checkpoint() &&
          !report.event().checkpoint().snapshot()) {
        NoteSaved(report.event().checkpoint(), request.worker(), now,
                  &entry->job());
        // It does get somewhere.
        entry->record.set_losses_in_row(0);
        entry->record.set_start_over(false);
      } else if (report.event().has_incident()) {
        AddIncident(*entry, report.event().incident(), now, effects);
      }
      UpdateProgress(report.event(), entry->job().mutable_progress());
      if (auto event = ToJobEvent(report.event())) {
        if (report.event().has_time()) {
          *event->mutable_time() = report.event().time();
        }
        AddEvent(*entry, *std::move(event), now, effects);
      }
      Change(*entry);
    }
    ack = attempt.last_report();
  }
  for (const auto& [key, number] : acks) {
    v1::ReportAck* ack = response->add_report_acks();
    ack->set_job(key.first);
    ack->set_attempt(key.second);
    ack->set_number(number);
  }
}

void Coordinator::TakeRendezvous(const v1::SynchronizeRequest& request) {
  for (const v1::RendezvousEntry& given : request.rendezvous()) {
    JobEntry* entry = FindAttempt(given.job(), given.attempt());
    if (entry == nullptr) continue;
    const Attempt& attempt = entry->record.attempt();
    const bool member =
        std::any_of(attempt.members().begin(), attempt.members().end(),
                    [&](const AttemptMember& rank) {
                      return rank.worker() == request.worker() &&
                             rank.incarnation() == request.incarnation();
                    });
    if (!member ||
        !entry->rendezvous.Put(request.worker(), given.key(), given.value())) {
      continue;
    }
    for (const AttemptMember& rank : attempt.members()) {
      if (rank.worker() != request.worker()) Touch(rank.worker());
    }
  }
}

void Coordinator::AddForget(const v1::SynchronizeRequest& request,
                            v1::SynchronizeResponse* response) {
  for (const v1::MemberStatus& status : request.members()) {
    if (status.phase() != v1::MemberStatus::EXITED) continue;
    const JobEntry* entry = FindAttempt(status.job(), status.attempt());
    // Rank 0 is remembered by its worker until its model has arrived.
    if (entry != nullptr && status.rank() == 0 &&
        HasResult(entry->record.attempt()) &&
        !ModelsAreStored(entry->record.attempt())) {
      v1::MemberKey* key = response->add_missing_models();
      key->set_job(status.job());
      key->set_attempt(status.attempt());
      key->set_rank(status.rank());
      continue;
    }
    v1::MemberKey* key = response->add_forget();
    key->set_job(status.job());
    key->set_attempt(status.attempt());
    key->set_rank(status.rank());
  }
}

void Coordinator::FillDesired(WorkerState& worker,
                              v1::SynchronizeResponse* response) {
  for (const std::string& name : worker.jobs) {
    const JobEntry& entry = *jobs_.Find(name);
    const Attempt& attempt = entry.record.attempt();
    int32_t local_world_size = 0;
    for (const AttemptMember& rank : attempt.members()) {
      if (rank.worker() == worker.id) ++local_world_size;
    }
    int32_t local_rank = 0;
    for (int i = 0; i < attempt.members_size(); ++i) {
      const AttemptMember& rank = attempt.members(i);
      if (rank.worker() != worker.id) continue;
      const int32_t local = local_rank++;
      if (attempt.hung() && !Ended(rank)) {
        v1::MemberKey* key = response->add_kill();
        key->set_job(name);
        key->set_attempt(entry.job().attempt());
        key->set_rank(i);
      }
      if (!IsWanted(attempt, rank) ||
          rank.incarnation() != worker.incarnation) {
        continue;
      }
      v1::MemberAssignment* assignment = response->add_desired();
      assignment->set_job(name);
      assignment->set_attempt(entry.job().attempt());
      assignment->set_rank(i);
      assignment->set_world_size(attempt.members_size());
      assignment->set_slot(rank.slot());
      assignment->set_local_rank(local);
      assignment->set_local_world_size(local_world_size);
      *assignment->mutable_spec() = entry.job().spec();
      *assignment->mutable_datasets() = entry.job().datasets();
      assignment->set_resume(entry.job().attempt() > 1 &&
                             !entry.record.start_over());
      if (i == 0) FillPeers(entry, worker, assignment);
    }
    entry.rendezvous.AppendForeign(worker.id, name, entry.job().attempt(),
                                   response->mutable_rendezvous());
  }
  response->set_peer_key(options_.peer_key);
  FillStops(worker, response);
  response->set_desired_version(worker.desired_version);
  *response->mutable_next_sync() = ToProtoDuration(options_.sync_interval);
}

void Coordinator::ReplyHeld(WorkerState& worker, absl::Time now,
                            Effects* effects) {
  v1::SynchronizeResponse response;
  FillDesired(worker, &response);
  effects->replies.push_back({worker.held->call, std::move(response)});
  // Nobody hung up, so the worker was there all the time.
  worker.last_seen = now;
  worker.held.reset();
}

void Coordinator::Abandon(int64_t call) {
  for (auto& [id, worker] : workers_.workers()) {
    if (worker.held && worker.held->call == call) worker.held.reset();
  }
}

void Coordinator::ReleaseHeldCalls(absl::Time now, Effects* effects) {
  for (auto& [id, worker] : workers_.workers()) {
    if (worker.held) ReplyHeld(worker, now, effects);
  }
  Finish(now, effects);
}

}  // namespace comera::server
