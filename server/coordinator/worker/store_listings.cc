// Implements StoreListings: who lists which states, whose word counts, and who
// deletes.
#include "server/coordinator/worker/store_listings.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "server/coordinator/job/training_lineage.h"

namespace comera::server {
namespace {

// A worker that was silent for longer may not have listed the store either.
constexpr absl::Duration kLongBreak = absl::Minutes(5);
// All reports of this time go by one count of the listers.
constexpr absl::Duration kCountLasts = absl::Seconds(1);
// One of so many workers may be the only one that can list the store.
constexpr int kFew = 2;

v1::HeldCheckpoint ToHeld(int64_t step, int64_t attempt) {
  v1::HeldCheckpoint held;
  held.set_step(step);
  held.set_attempt(attempt);
  held.set_place(v1::HeldCheckpoint::DURABLE);
  return held;
}

}  // namespace

bool StoreListings::Lists(const State& state, size_t number) {
  return number < state.listers.size() && state.listers[number];
}

bool StoreListings::ListsAny(const State& state,
                             const std::vector<size_t>& numbers) {
  return std::any_of(numbers.begin(), numbers.end(),
                     [&](size_t number) { return Lists(state, number); });
}

bool StoreListings::Add(size_t number, State* state) const {
  if (Lists(*state, number)) return false;
  if (state->listers.size() <= number) state->listers.resize(number + 1);
  state->listers[number] = true;
  state->first = state->count == 0 ? number : std::min(state->first, number);
  ++state->count;
  if (!workers_by_number_[number].empty()) ++state->current;
  return true;
}

bool StoreListings::Remove(size_t number, State* state) const {
  if (!Lists(*state, number)) return false;
  state->listers[number] = false;
  --state->count;
  if (!workers_by_number_[number].empty()) --state->current;
  while (state->count > 0 && !state->listers[state->first]) ++state->first;
  return true;
}

size_t StoreListings::NewNumber(const std::string& worker) {
  if (free_numbers_.empty()) {
    workers_by_number_.push_back(worker);
    return workers_by_number_.size() - 1;
  }
  const size_t number = free_numbers_.back();
  free_numbers_.pop_back();
  workers_by_number_[number] = worker;
  return number;
}

void StoreListings::FreeNumber(size_t number) {
  workers_by_number_[number].clear();
  free_numbers_.push_back(number);
}

bool StoreListings::IsAway(size_t number) const {
  const std::string& id = workers_by_number_[number];
  const WorkerState* worker = id.empty() ? nullptr : workers_->Find(id);
  return worker == nullptr || worker->lost();
}

void StoreListings::CountListers(absl::Time now) {
  if (now - counted_ < kCountLasts) return;
  counted_ = now;
  listers_there_ =
      std::count_if(current_.begin(), current_.end(), [&](const auto& one) {
        return one.second.count > 0 && !IsAway(one.second.number);
      });
}

bool StoreListings::AreFewThere() const {
  int there = 0;
  for (const auto& [id, worker] : workers_->workers()) {
    if (worker.IsReachable() && ++there > kFew) return false;
  }
  return true;
}

std::vector<size_t> StoreListings::NumbersOf(
    const std::vector<std::string>& workers) const {
  std::vector<size_t> numbers;
  for (const std::string& worker : workers) {
    for (const Listers* listers : {&current_, &former_}) {
      const auto known = listers->find(worker);
      if (known != listers->end()) numbers.push_back(known->second.number);
    }
  }
  return numbers;
}

StoreListings::Changes StoreListings::Apply(
    const WorkerState& worker,
    const std::vector<const v1::HeldCheckpoint*>& listed, absl::Time now) {
  CountListers(now);
  Changes changes;
  auto known = current_.find(worker.id());
  if (known != current_.end() && known->second.life != worker.life()) {
    // It does not know yet what its last life put there.
    Retire(worker.id());
    known = current_.end();
  }
  if (known == current_.end()) {
    if (listed.empty()) return changes;
    known = current_.try_emplace(worker.id()).first;
    known->second.number = NewNumber(worker.id());
    known->second.life = worker.life();
  }
  Lister& lister = known->second;
  changes.lister = lister.number;
  if (now - lister.heard > kLongBreak) lister.since = now;
  lister.heard = now;
  ++reports_;
  size_t same = 0, count = 0;
  auto job = jobs_.end();
  for (const v1::HeldCheckpoint* one : listed) {
    // A job's states come one after the other.
    if (job == jobs_.end() || job->first != one->job()) {
      job = jobs_.try_emplace(one->job()).first;
    }
    State& state = job->second[{one->step(), one->attempt()}];
    if (state.report == reports_) continue;
    state.report = reports_;
    ++count;
    if (state.count == 0) changes.found.insert(one->job());
    if (!Add(lister.number, &state)) {
      ++same;
      // By now nobody lists any more what was deleted then.
      if (!state.deleter.empty() && now - state.told > kOldestListing) {
        state.deleter.clear();
      }
      continue;
    }
    // It was not deleted after all.
    if (state.deleter == worker.id()) state.deleter.clear();
  }
  if (same < lister.count) Drop(lister.number, &changes);
  if (lister.count == 0 && count > 0) ++listers_there_;
  lister.count = count;
  few_there_ = AreFewThere();
  return changes;
}

void StoreListings::Drop(size_t number, Changes* changes) {
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    for (auto at = job->second.begin(); at != job->second.end();) {
      State& state = at->second;
      if (state.report == reports_ || !Remove(number, &state)) {
        ++at;
        continue;
      }
      while (state.count > 0 && IsAway(state.first)) {
        Remove(state.first, &state);
      }
      if (state.count > 0) {
        ++at;
        continue;
      }
      changes->gone[job->first].push_back(
          ToHeld(at->first.first, at->first.second));
      at = job->second.erase(at);
    }
    job = job->second.empty() ? jobs_.erase(job) : std::next(job);
  }
  Confirm(&changes->gone);
}

void StoreListings::Confirm(States* gone) const {
  for (auto& [job, states] : *gone) {
    const std::string& name = job;
    states.erase(std::remove_if(states.begin(), states.end(),
                                [&](const v1::HeldCheckpoint& held) {
                                  return Contains(name, held);
                                }),
                 states.end());
  }
}

void StoreListings::Retire(const std::string& worker) {
  const auto known = current_.find(worker);
  if (known == current_.end()) return;
  const Lister lister = known->second;
  current_.erase(known);
  if (lister.count > 0) {
    const auto [former, added] = former_.try_emplace(worker);
    if (added) former->second.number = NewNumber("");
    former->second.heard = lister.heard;
    for (auto& [job, states] : jobs_) {
      for (auto& [key, state] : states) {
        if (!Lists(state, lister.number)) continue;
        Add(former->second.number, &state);
        Remove(lister.number, &state);
      }
    }
  }
  FreeNumber(lister.number);
}

StoreListings::States StoreListings::Review(absl::Time now) {
  const bool renewed =
      std::any_of(current_.begin(), current_.end(), [&](const auto& one) {
        const Lister& lister = one.second;
        return lister.count > 0 && !IsAway(lister.number) &&
               now - lister.heard <= kLongBreak &&
               now - lister.since > kWordLasts;
      });
  if (!renewed) return {};
  std::vector<size_t> over;
  for (Listers* listers : {&current_, &former_}) {
    for (auto one = listers->begin(); one != listers->end();) {
      const Lister& lister = one->second;
      if (!IsAway(lister.number) || now - lister.heard <= kWordLasts) {
        ++one;
        continue;
      }
      over.push_back(lister.number);
      one = listers->erase(one);
    }
  }
  States gone;
  if (over.empty()) return gone;
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    for (auto at = job->second.begin(); at != job->second.end();) {
      for (const size_t number : over) Remove(number, &at->second);
      if (at->second.count > 0) {
        ++at;
        continue;
      }
      gone[job->first].push_back(ToHeld(at->first.first, at->first.second));
      at = job->second.erase(at);
    }
    job = job->second.empty() ? jobs_.erase(job) : std::next(job);
  }
  for (const size_t number : over) FreeNumber(number);
  Confirm(&gone);
  return gone;
}

std::vector<v1::HeldCheckpoint> StoreListings::FindBelieved(
    const std::string& job,
    absl::FunctionRef<std::vector<std::string>()> trusted,
    absl::FunctionRef<bool(const v1::HeldCheckpoint&)> is_announced,
    size_t lister, size_t* listed) const {
  std::vector<v1::HeldCheckpoint> found;
  const auto states = jobs_.find(job);
  if (states == jobs_.end()) return found;
  const size_t half = (listers_there_ + 1) / 2;
  std::optional<std::vector<size_t>> numbers;
  for (const auto& [key, state] : states->second) {
    if (listed != nullptr && Lists(state, lister)) ++*listed;
    if (!state.deleter.empty()) continue;
    v1::HeldCheckpoint held = ToHeld(key.first, key.second);
    bool believed = state.current >= std::max<size_t>(2, half);
    if (!believed && few_there_) {
      believed =
          state.current >= std::max<size_t>(1, half) && is_announced(held);
    }
    if (!believed) {
      if (!numbers) numbers = NumbersOf(trusted());
      believed = ListsAny(state, *numbers);
    }
    if (believed) found.push_back(std::move(held));
  }
  return found;
}

std::vector<v1::HeldCheckpoint> StoreListings::FindListedBy(
    const std::string& job, const std::vector<std::string>& workers) const {
  std::vector<v1::HeldCheckpoint> found;
  const auto states = jobs_.find(job);
  if (states == jobs_.end()) return found;
  const std::vector<size_t> numbers = NumbersOf(workers);
  for (const auto& [key, state] : states->second) {
    if (state.deleter.empty() && ListsAny(state, numbers)) {
      found.push_back(ToHeld(key.first, key.second));
    }
  }
  return found;
}

bool StoreListings::Contains(const std::string& job,
                             const v1::HeldCheckpoint& held) const {
  const auto states = jobs_.find(job);
  if (states == jobs_.end()) return false;
  for (auto at = states->second.lower_bound({held.step(), 0});
       at != states->second.end() && at->first.first == held.step(); ++at) {
    if (at->second.deleter.empty() &&
        SameState(at->first.second, at->first.first, held.attempt(),
                  held.step())) {
      return true;
    }
  }
  return false;
}

std::vector<v1::HeldCheckpoint> StoreListings::ListedBy(size_t lister,
                                                        const std::string& job,
                                                        bool deleted) const {
  std::vector<v1::HeldCheckpoint> listed;
  const auto states = jobs_.find(job);
  if (states == jobs_.end()) return listed;
  for (const auto& [key, state] : states->second) {
    if (Lists(state, lister) && (deleted || state.deleter.empty())) {
      listed.push_back(ToHeld(key.first, key.second));
    }
  }
  return listed;
}

bool StoreListings::MustDelete(const std::string& job,
                               const v1::HeldCheckpoint& held,
                               const WorkerState& worker, absl::Time now) {
  State& state = jobs_.at(job).at({held.step(), held.attempt()});
  if (!state.deleter.empty() && state.deleter != worker.id() &&
      now - state.told <= kDeletionTakes) {
    const WorkerState* other = workers_->Find(state.deleter);
    if (other != nullptr && !other->lost()) return false;
  }
  state.deleter = worker.id();
  state.told = now;
  return true;
}

}  // namespace comera::server
