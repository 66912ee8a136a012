// Answers questions about the members on this worker.
#include <algorithm>

#include "worker/gang/gang.h"
#include "worker/gang/member_table.h"

namespace comera::worker {

v1::MemberKey MemberTable::ToProto(const Key& key) {
  v1::MemberKey proto;
  proto.set_job(std::get<0>(key));
  proto.set_attempt(std::get<1>(key));
  proto.set_rank(std::get<2>(key));
  return proto;
}

std::vector<v1::Peer> MemberTable::Replicas(const v1::MemberKey& rank) const {
  const auto it = desired_.find(KeyOf(rank));
  if (it == desired_.end()) return {};
  return {it->second.replicas().begin(), it->second.replicas().end()};
}

bool MemberTable::IsAlive(const v1::MemberKey& rank) const {
  const auto it = ranks_.find(KeyOf(rank));
  return it != ranks_.end() && it->second.process;
}

std::optional<v1::MemberAssignment> MemberTable::Assignment(
    GangMembers::Id id) const {
  for (const auto& [key, rank] : ranks_) {
    if (rank.id == id) return rank.assignment;
  }
  return std::nullopt;
}

std::vector<std::string> MemberTable::PopFinishedJobs() {
  const std::set<std::string> present = Jobs();
  std::vector<std::string> finished;
  for (auto it = finished_jobs_.begin(); it != finished_jobs_.end();) {
    if (present.count(*it) > 0) {
      ++it;
    } else {
      finished.push_back(*it);
      it = finished_jobs_.erase(it);
    }
  }
  return finished;
}

std::vector<GangMembers::Id> MemberTable::PopForgotten() {
  return std::exchange(forgotten_, {});
}

std::vector<MemberTable::Settled> MemberTable::ListSettled() const {
  std::vector<Settled> all;
  for (const auto& [key, rank] : ranks_) {
    // What a member ends with is needed until the coordinator has it all.
    if (!rank.process || rank.result || rank.failure) continue;
    Settled settled = {rank.id, rank.handled, v1::STAGE_UNSPECIFIED};
    const auto queue = reports_.find({std::get<0>(key), std::get<1>(key)});
    if (std::get<2>(key) == 0 && queue != reports_.end() &&
        queue->second.size() > 0) {
      settled.events_offset = queue->second.acknowledged() - kFirstNumber;
    }
    settled.reported_stage = ReportedStage(rank, settled.events_offset);
    if (settled.events_offset > 0) all.push_back(settled);
  }
  return all;
}

v1::Stage MemberTable::ReportedStage(const Member& rank, int64_t place) {
  const auto later = rank.reported_stages.upper_bound(place);
  return later == rank.reported_stages.begin() ? v1::STAGE_UNSPECIFIED
                                               : std::prev(later)->second;
}

v1::Stage MemberTable::StageAtStart(GangMembers::Id id) const {
  for (const auto& [key, rank] : ranks_) {
    if (rank.id == id) return ReportedStage(rank, 0);
  }
  return v1::STAGE_UNSPECIFIED;
}

std::vector<std::pair<std::string, int64_t>>
MemberTable::PopFinishedAttempts() {
  return std::exchange(finished_attempts_, {});
}

std::optional<v1::MemberKey> MemberTable::Find(GangMembers::Id id) const {
  for (const auto& [key, rank] : ranks_) {
    if (rank.id == id) return ToProto(key);
  }
  return std::nullopt;
}

std::set<std::string> MemberTable::Jobs() const {
  std::set<std::string> jobs;
  for (const auto& [key, rank] : ranks_) jobs.insert(std::get<0>(key));
  return jobs;
}

std::map<std::pair<std::string, int64_t>, int> MemberTable::SpanningGangs()
    const {
  std::map<std::pair<std::string, int64_t>, int> gangs;
  for (const auto& [key, rank] : ranks_) {
    if (rank.process && SpansWorkers(rank.assignment)) {
      ++gangs[{std::get<0>(key), std::get<1>(key)}];
    }
  }
  return gangs;
}

bool MemberTable::AnyMeeting() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& entry) {
    // No gang takes a step before all its members have met.
    return entry.second.process && entry.second.status.step() == 0 &&
           SpansWorkers(entry.second.assignment);
  });
}

bool MemberTable::HasProcesses() const { return !Processes().empty(); }

std::vector<GangMembers::Id> MemberTable::Processes() const {
  std::vector<GangMembers::Id> ids;
  for (const auto& [key, rank] : ranks_) {
    if (rank.process) ids.push_back(rank.id);
  }
  return ids;
}

}  // namespace comera::worker
