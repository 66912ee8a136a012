// Implements AssignmentWriter: the desired state of one worker.
#include "server/coordinator/synchronize/assignment_writer.h"

#include <algorithm>
#include <vector>

#include "proto/resource_names.h"
#include "server/coordinator/job/start_from.h"
#include "server/rpc/proto_time.h"

namespace comera::server {
namespace {

void SetKey(const JobEntry& entry, const GangMember& member,
            v1::MemberKey* key) {
  key->set_job(entry.name());
  key->set_attempt(entry.attempt().number());
  key->set_rank(member.number());
}

}  // namespace

void AssignmentWriter::Write(WorkerState* told,
                             v1::SynchronizeResponse* response,
                             Operation* op) const {
  response->set_grant_key(peers_->RenewGrantKey(op->now(), told));
  const WorkerState& worker = *told;
  for (const std::string& name : worker.jobs()) {
    const JobEntry& entry = *jobs_->Find(name);
    WriteMembers(entry, worker, response, op);
    WriteStops(entry, worker, response);
  }
  WriteRendezvous(worker, response);
  response->set_desired_version(worker.desired_version());
  *response->mutable_next_sync() = ToProtoDuration(options_->sync_interval);
}

void AssignmentWriter::WriteRendezvous(
    const WorkerState& worker, v1::SynchronizeResponse* response) const {
  std::vector<const JobEntry*> gangs;
  for (const std::string& name : worker.jobs()) {
    gangs.push_back(jobs_->Find(name));
  }
  const auto bytes = [](const JobEntry* entry) {
    return entry->attempt().rendezvous().bytes();
  };
  // What small gangs leave of their shares is for the large ones.
  std::stable_sort(gangs.begin(), gangs.end(),
                   [&](const JobEntry* a, const JobEntry* b) {
                     return bytes(a) < bytes(b);
                   });
  size_t room = RendezvousMirror::kMostBytes;
  for (size_t i = 0; i < gangs.size(); ++i) {
    const JobEntry& entry = *gangs[i];
    const size_t share = room / (gangs.size() - i);
    entry.attempt().rendezvous().AppendForeign(worker.id(), entry.name(),
                                               entry.attempt().number(), share,
                                               response->mutable_rendezvous());
    room -= std::min(share, bytes(&entry));
  }
}

void AssignmentWriter::WriteMembers(const JobEntry& entry,
                                    const WorkerState& worker,
                                    v1::SynchronizeResponse* response,
                                    Operation* op) const {
  const Attempt& attempt = entry.attempt();
  int32_t local_rank = 0;
  for (const GangMember& member : attempt.members()) {
    if (member.worker() != worker.id()) continue;
    const int32_t local = local_rank++;
    if (attempt.record().hung() && !member.HasEnded()) {
      SetKey(entry, member, response->add_kill());
    }
    if (attempt.IsWanted(member) &&
        member.RunsOn(worker.id(), worker.incarnation())) {
      WriteAssignment(entry, member, worker, local, response->add_desired(),
                      op);
    }
  }
}

void AssignmentWriter::WriteAssignment(
    const JobEntry& entry, const GangMember& member, const WorkerState& worker,
    int32_t local_rank, v1::MemberAssignment* assignment, Operation* op) const {
  const Attempt& attempt = entry.attempt();
  assignment->set_job(entry.name());
  assignment->set_attempt(attempt.number());
  assignment->set_rank(member.number());
  assignment->set_world_size(static_cast<int32_t>(attempt.members().size()));
  assignment->set_slot(member.slot());
  assignment->set_local_rank(local_rank);
  assignment->set_local_world_size(attempt.CountMembersOn(worker.id()));
  *assignment->mutable_spec() = entry.job().spec();
  *assignment->mutable_datasets() = entry.job().datasets();
  assignment->set_resume(entry.resumes());
  const v1::TrainingStateKey* start = entry.start();
  if (member.number() == 0 && entry.resumes() && start != nullptr) {
    *assignment->mutable_start() = *start;
  } else if (member.number() == 0) {
    WriteStartFrom(entry, assignment);
  }
  if (member.number() != 0) return;
  assignment->set_finish(attempt.finishing());
  peers_->AssignPeers(entry, worker, assignment, op);
}

void AssignmentWriter::WriteStartFrom(const JobEntry& entry,
                                      v1::MemberAssignment* assignment) const {
  if (!entry.job().spec().has_start_from() || entry.resumes()) return;
  const auto ids =
      ParseCheckpointName(entry.job().spec().start_from().checkpoint());
  if (!ids) return;
  const std::string name = JobName(ids->first);
  const JobEntry* source = jobs_->Find(name);
  const auto start = FindStart(entry.job().spec(),
                               source == nullptr ? nullptr : &source->job());
  // The coordinator has the others' file.
  if (!start) return;
  assignment->set_start_job(name);
  *assignment->mutable_start() = *start;
}

void AssignmentWriter::WriteStops(const JobEntry& entry,
                                  const WorkerState& worker,
                                  v1::SynchronizeResponse* response) const {
  if (!entry.attempt().stop_requested()) return;
  for (const GangMember& member : entry.attempt().members()) {
    if (member.worker() != worker.id() || member.HasEnded()) continue;
    v1::MemberStop* stop = response->add_stopping();
    SetKey(entry, member, stop->mutable_member());
    *stop->mutable_grace() =
        ToProtoDuration(options_->scheduler.preemption_grace);
  }
}

}  // namespace comera::server
