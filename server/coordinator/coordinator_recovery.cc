// What finds and survives failures: hangs, silent workers, copies of training
// states.
#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/text.h"
#include "proto/resource_names.h"
#include "server/coordinator/attempt.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/job_checkpoints.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

constexpr size_t kMaxMessageBytes = 4096;
constexpr int kMaxIncidents = 64;
constexpr int kMaxSources = 16;
// Workers come and go in crowds.
constexpr absl::Duration kTouchPeersInterval = absl::Seconds(2);

bool IsLoopback(const std::string& address) {
  return absl::StartsWith(address, "127.") ||
         absl::StartsWith(address, "[::1]") ||
         absl::StartsWith(address, "localhost:");
}

// More than other files of the job.
bool Holds(const WorkerState& worker, const std::string& job) {
  const auto held = worker.held_checkpoints.find(job);
  return held != worker.held_checkpoints.end() &&
         std::any_of(held->second.begin(), held->second.end(),
                     [](const v1::HeldCheckpoint& one) {
                       return one.place() == v1::HeldCheckpoint::DISK ||
                              one.place() == v1::HeldCheckpoint::MEMORY;
                     });
}

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

}  // namespace

void Coordinator::CheckHang(JobEntry& entry, absl::Time now, Effects* effects) {
  Attempt& attempt = *entry.record.mutable_attempt();
  if (attempt.stopping() || HasResult(attempt)) return;
  const auto hang = entry.hang.Find(options_.hang, attempt);
  if (!hang) return;
  attempt.set_hung(true);
  AddFailure(entry, v1::COLLECTIVE_HANG, hang->rank, hang->message, now,
             effects);
}

void Coordinator::AddIncident(JobEntry& entry, v1::Failure failure,
                              absl::Time now, Effects* effects) {
  if (failure.failure_class() == v1::FAILURE_CLASS_UNSPECIFIED) {
    failure.set_failure_class(v1::INTERNAL);
  }
  failure.set_attempt(entry.job().attempt());
  failure.set_message(TruncateUtf8(failure.message(), kMaxMessageBytes));
  failure.set_log_tail(TruncateUtf8(failure.log_tail(), kMaxMessageBytes));
  if (!failure.has_time()) *failure.mutable_time() = ToTimestamp(now);
  const auto& known = entry.job().incidents();
  const bool repeated =
      std::any_of(known.begin(), known.end(), [&](const v1::Failure& other) {
        return other.attempt() == failure.attempt() &&
               other.failure_class() == failure.failure_class() &&
               other.message() == failure.message();
      });
  if (repeated) return;
  if (entry.job().incidents_size() < kMaxIncidents) {
    *entry.job().add_incidents() = failure;
  }
  v1::JobEvent event;
  *event.mutable_incident() = std::move(failure);
  AddEvent(entry, std::move(event), now, effects);
}

void Coordinator::Requeue(JobEntry& entry, const v1::Failure& cause,
                          absl::Time now, Effects* effects) {
  const std::string what = absl::StrCat(
      v1::FailureClass_Name(cause.failure_class()), ": ", cause.message());
  if (cause.failure_class() == v1::PREEMPTED) {
    SetState(entry, v1::QUEUED,
             absl::StrCat("attempt ", entry.job().attempt(), " was stopped (",
                          cause.message(), "), to go on elsewhere"),
             now, effects);
    return;
  }
  if (cause.failure_class() == v1::CHECKPOINT_DAMAGED) {
    entry.record.set_start_over(true);
    entry.job().clear_checkpoints();
  }
  const int32_t losses = entry.record.losses_in_row() + 1;
  entry.record.set_losses_in_row(losses);
  const absl::Duration delay =
      RetryDelay(options_.retry_backoff, losses, options_.jitter());
  entry.record.clear_retry_time();
  entry.retry_at = now + delay;
  std::string when = "trying again";
  if (delay > absl::ZeroDuration()) {
    *entry.record.mutable_retry_time() = ToTimestamp(entry.retry_at);
    when =
        absl::StrCat("trying again in ",
                     absl::FormatDuration(absl::Ceil(delay, absl::Seconds(1))));
  }
  SetState(entry, v1::QUEUED,
           absl::StrCat("attempt ", entry.job().attempt(), " was lost (", what,
                        "), ", when),
           now, effects);
}

void Coordinator::ProbeSilent(WorkerState& worker, absl::Time now,
                              Effects* effects) {
  if (!worker.attached || worker.lost || worker.held || worker.jobs.empty() ||
      worker.peer_address.empty() ||
      (IsLoopback(worker.peer_address) && worker.host != options_.host) ||
      now - worker.last_seen < options_.probe_after ||
      now - worker.last_probe < options_.probe_after) {
    return;
  }
  worker.last_probe = now;
  effects->probes.push_back(
      {worker.id, worker.incarnation, worker.peer_address});
}

void Coordinator::WorkerGone(const std::string& id,
                             const std::string& incarnation, absl::Time now,
                             Effects* effects) {
  WorkerState* worker = workers_.Find(id);
  if (worker == nullptr || worker->incarnation != incarnation || worker->lost ||
      worker->held || now - worker->last_seen < options_.probe_after) {
    return;  // It was heard since.
  }
  worker->lost = true;
  LoseMembers(*worker, "is gone: its machine has no such process any more", now,
              effects);
  peers_changed_ = true;
  Finish(now, effects);
}

void Coordinator::TakeCheckpoints(const v1::SynchronizeRequest& request,
                                  WorkerState& worker,
                                  v1::SynchronizeResponse* response) {
  worker.peer_address = request.peer_address();
  if (request.peer_address().empty() && request.checkpoints_size() == 0) {
    worker.held_checkpoints.clear();
    return;
  }
  std::map<std::string, std::vector<v1::HeldCheckpoint>> held;
  for (const v1::HeldCheckpoint& one : request.checkpoints()) {
    held[one.job()].push_back(one);
  }
  std::set<std::string> jobs;
  for (const auto& [job, checkpoints] : held) jobs.insert(job);
  for (const auto& [job, old] : worker.held_checkpoints) jobs.insert(job);
  worker.held_checkpoints = std::move(held);
  for (const std::string& name : jobs) {
    JobEntry* entry = jobs_.Find(name);
    if (entry == nullptr) continue;
    const auto now_held = worker.held_checkpoints.find(name);
    const bool holds = now_held != worker.held_checkpoints.end();
    if (holds && IsFinal(entry->job().state())) {
      response->add_ended_jobs(name);
    }
    if (NoteHeld(worker.id,
                 holds ? now_held->second : std::vector<v1::HeldCheckpoint>(),
                 entry->record.mutable_job())) {
      Change(*entry);
    }
  }
}

void Coordinator::FillPeers(const JobEntry& entry, const WorkerState& worker,
                            v1::MemberAssignment* assignment) {
  std::set<std::string> gang;
  for (const AttemptMember& rank : entry.record.attempt().members()) {
    gang.insert(rank.worker());
  }
  const std::string& job = entry.job().name();
  // Other machines first, of them those of the gang: they are likely to be part
  // of the next one.
  std::vector<std::tuple<bool, bool, uint64_t, const WorkerState*>> candidates;
  for (const auto& [id, other] : workers_.workers()) {
    if (id == worker.id || !other.attached || other.lost ||
        other.peer_address.empty() ||
        (IsLoopback(other.peer_address) && other.host != worker.host)) {
      continue;
    }
    candidates.emplace_back(other.host == worker.host, gang.count(id) == 0,
                            Score(job, id), &other);
    if (assignment->resume() && Holds(other, job) &&
        assignment->sources_size() < kMaxSources) {
      v1::Peer* source = assignment->add_sources();
      source->set_worker(id);
      source->set_address(other.peer_address);
    }
  }
  const size_t wanted = std::min<size_t>(
      candidates.size(), entry.job().spec().checkpoint().replicas());
  std::partial_sort(candidates.begin(), candidates.begin() + wanted,
                    candidates.end());
  for (size_t i = 0; i < wanted; ++i) {
    const WorkerState& other = *std::get<3>(candidates[i]);
    v1::Peer* replica = assignment->add_replicas();
    replica->set_worker(other.id);
    replica->set_address(other.peer_address);
  }
}

void Coordinator::TouchPeers(absl::Time now) {
  if (!peers_changed_ || now < next_touch_peers_) return;
  peers_changed_ = false;
  next_touch_peers_ = now + kTouchPeersInterval;
  for (const std::string& name : jobs_.active()) {
    const Attempt& attempt = jobs_.Find(name)->record.attempt();
    if (attempt.members_size() > 0 && IsWanted(attempt, attempt.members(0))) {
      Touch(attempt.members(0).worker());
    }
  }
}

}  // namespace comera::server
