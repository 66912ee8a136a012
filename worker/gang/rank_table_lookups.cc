// Questions about the ranks here.
#include <algorithm>

#include "worker/gang/gang.h"
#include "worker/gang/rank_table.h"

namespace comera::worker {

v1::RankKey RankTable::ToProto(const Key& key) {
  v1::RankKey proto;
  proto.set_job(std::get<0>(key));
  proto.set_epoch(std::get<1>(key));
  proto.set_rank(std::get<2>(key));
  return proto;
}

std::vector<std::string> RankTable::Replicas(const v1::RankKey& rank) const {
  std::vector<std::string> addresses;
  const auto it = desired_.find(KeyOf(rank));
  if (it == desired_.end()) return addresses;
  for (const v1::Peer& peer : it->second.replicas()) {
    addresses.push_back(peer.address());
  }
  return addresses;
}

std::optional<v1::RankAssignment> RankTable::Assignment(
    RankProcesses::Id id) const {
  for (const auto& [key, rank] : ranks_) {
    if (rank.id == id) return rank.assignment;
  }
  return std::nullopt;
}

std::vector<std::string> RankTable::TakeFinishedJobs() {
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

std::vector<std::pair<std::string, int64_t>> RankTable::TakeFinishedEpochs() {
  return std::exchange(finished_epochs_, {});
}

std::optional<v1::RankKey> RankTable::Find(RankProcesses::Id id) const {
  for (const auto& [key, rank] : ranks_) {
    if (rank.id == id) return ToProto(key);
  }
  return std::nullopt;
}

std::set<std::string> RankTable::Jobs() const {
  std::set<std::string> jobs;
  for (const auto& [key, rank] : ranks_) jobs.insert(std::get<0>(key));
  return jobs;
}

std::set<std::pair<std::string, int64_t>> RankTable::SpanningGangs() const {
  std::set<std::pair<std::string, int64_t>> gangs;
  for (const auto& [key, rank] : ranks_) {
    if (rank.process && SpansWorkers(rank.assignment)) {
      gangs.insert({std::get<0>(key), std::get<1>(key)});
    }
  }
  return gangs;
}

bool RankTable::AnyMeeting() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& entry) {
    // A step needs all ranks.
    return entry.second.process && entry.second.status.step() == 0 &&
           SpansWorkers(entry.second.assignment);
  });
}

bool RankTable::HasProcesses() const { return !Processes().empty(); }

std::vector<RankProcesses::Id> RankTable::Processes() const {
  std::vector<RankProcesses::Id> ids;
  for (const auto& [key, rank] : ranks_) {
    if (rank.process) ids.push_back(rank.id);
  }
  return ids;
}

}  // namespace comera::worker
