// Implements SlotPool: packs gangs into free slots.
#include "server/scheduler/slot_pool.h"

#include <algorithm>

namespace comera::server {
namespace {

// The worker with the most free slots; the first of several.
std::set<std::pair<int32_t, int32_t>>::const_iterator Largest(
    const std::set<std::pair<int32_t, int32_t>>& set) {
  return set.lower_bound({set.rbegin()->first, -1});
}

}  // namespace

void SlotPool::Add(int32_t worker, int32_t rack, bool runs_programs,
                   const std::vector<int32_t>* free) {
  if (free->empty()) return;
  if (rooms_.size() <= static_cast<size_t>(worker)) rooms_.resize(worker + 1);
  rooms_[worker] = {rack, free, 0, runs_programs};
  const auto count = static_cast<int32_t>(free->size());
  free_ += count;
  if (runs_programs) free_for_programs_ += count;
  workers_.insert(workers_.end(), {count, worker});
  if (rack < 0) return;
  if (racks_.size() <= static_cast<size_t>(rack)) racks_.resize(rack + 1);
  Rack& room = racks_[rack];
  racks_by_free_.erase({room.free, rack});
  room.free += count;
  room.workers.insert({count, worker});
  racks_by_free_.insert({room.free, rack});
}

int32_t SlotPool::Choose(ByFree from, int32_t processes,
                         std::vector<int32_t>* chosen) {
  while (processes > 0 && !from.empty()) {
    // Prefer the tightest worker that holds all that is missing, else the
    // largest.
    auto best = from.lower_bound({processes, -1});
    if (best == from.end()) best = Largest(from);
    processes -= best->first;
    chosen->push_back(best->second);
    from.erase(best);
  }
  return processes;
}

std::vector<int32_t> SlotPool::ChooseWorkers(int32_t processes,
                                             const std::vector<int32_t>& wanted,
                                             bool program) const {
  std::vector<int32_t> chosen;
  ByFree before;
  int32_t room = 0;
  for (int32_t worker : wanted) {
    if (worker < 0 || static_cast<size_t>(worker) >= rooms_.size()) continue;
    if (program && !rooms_[worker].runs_programs) continue;
    const int32_t free = rooms_[worker].free();
    if (free > 0 && before.insert({free, worker}).second) room += free;
  }
  if (room >= processes) {
    Choose(std::move(before), processes, &chosen);
    return chosen;
  }
  if (program && free_for_programs_ < free_) {
    // Where only some workers run programs, racks do not count.
    ByFree able;
    for (const auto& entry : workers_) {
      if (rooms_[entry.second].runs_programs) able.insert(entry);
    }
    Choose(std::move(able), processes, &chosen);
    return chosen;
  }
  const auto machine = workers_.lower_bound({processes, -1});
  if (machine != workers_.end()) return {machine->second};
  const auto rack = racks_by_free_.lower_bound({processes, -1});
  if (rack != racks_by_free_.end()) {
    Choose(racks_[rack->second].workers, processes, &chosen);
    return chosen;
  }
  // Whole racks are filled, the largest first, and then the tightest one for
  // the rest.
  ByFree left = racks_by_free_;
  while (processes > 0 && !left.empty()) {
    auto best = left.lower_bound({processes, -1});
    if (best == left.end()) best = Largest(left);
    if (best->first == 0) break;
    processes = Choose(racks_[best->second].workers, processes, &chosen);
    left.erase(best);
  }
  if (processes > 0) {
    ByFree unlabelled;
    for (const auto& entry : workers_) {
      if (rooms_[entry.second].rack < 0) unlabelled.insert(entry);
    }
    Choose(std::move(unlabelled), processes, &chosen);
  }
  return chosen;
}

void SlotPool::Use(int32_t worker, int32_t count,
                   std::vector<MemberPlace>* places) {
  Room& room = rooms_[worker];
  const int32_t before = room.free();
  const int32_t after = before - count;
  for (int32_t i = 0; i < count; ++i) {
    places->push_back({worker, (*room.slots)[room.taken++]});
  }
  free_ -= count;
  if (room.runs_programs) free_for_programs_ -= count;
  workers_.erase({before, worker});
  if (after > 0) workers_.insert({after, worker});
  if (room.rack < 0) return;
  Rack& rack = racks_[room.rack];
  rack.workers.erase({before, worker});
  if (after > 0) rack.workers.insert({after, worker});
  racks_by_free_.erase({rack.free, room.rack});
  rack.free -= count;
  racks_by_free_.insert({rack.free, room.rack});
}

std::vector<MemberPlace> SlotPool::Allocate(int32_t processes,
                                            const std::vector<int32_t>& wanted,
                                            bool program) {
  std::vector<int32_t> chosen = ChooseWorkers(processes, wanted, program);
  // Workers are filled in the order of choice, so that the last may keep some.
  std::vector<std::pair<int32_t, int32_t>> shares;
  for (int32_t worker : chosen) {
    const int32_t share = std::min(processes, rooms_[worker].free());
    shares.push_back({worker, share});
    processes -= share;
  }
  // Member 0 returns to where member 0 was.
  const auto preference = [&](int32_t worker) {
    return std::find(wanted.begin(), wanted.end(), worker) - wanted.begin();
  };
  std::stable_sort(shares.begin(), shares.end(),
                   [&](const auto& a, const auto& b) {
                     return preference(a.first) < preference(b.first);
                   });
  std::vector<MemberPlace> places;
  for (const auto& [worker, share] : shares) Use(worker, share, &places);
  return places;
}

}  // namespace comera::server
