// Implements StartChooser: the newest valid state that can be had, or what the
// job waits for.
#include "server/coordinator/schedule/start_chooser.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/coordinator/job/training_lineage.h"

namespace comera::server {
namespace {

constexpr size_t kMaxNamedWorkers = 3;

v1::TrainingStateKey Key(int64_t attempt, int64_t step) {
  v1::TrainingStateKey key;
  key.set_attempt(attempt);
  key.set_step(step);
  return key;
}

// "worker w1", "one of the workers w1, w2".
std::string Whom(std::vector<std::string> workers) {
  if (workers.size() == 1) return absl::StrCat("worker ", workers[0]);
  const bool more = workers.size() > kMaxNamedWorkers;
  if (more) workers.resize(kMaxNamedWorkers);
  return absl::StrCat("one of the workers ", absl::StrJoin(workers, ", "),
                      more ? ", ..." : "");
}

bool Knows(const JobEntry::SetAside& aside, const WorkerState& worker) {
  return aside.holders.count({worker.id(), worker.incarnation()}) > 0;
}

bool IsAside(const JobEntry& entry, const v1::TrainingStateKey& state,
             absl::Time now) {
  return entry.aside() && now < entry.aside()->until &&
         SameState(entry.aside()->state.attempt(), entry.aside()->state.step(),
                   state.attempt(), state.step());
}

}  // namespace

StartChoice StartChooser::Choose(const JobEntry& entry, absl::Time now) const {
  StartChoice choice;
  choice.wanted = entry.record().start_over();
  if (entry.job().attempt() == 0 || choice.wanted) return choice;
  const States states = Collect(entry, now);
  // The state that must not be given up in silence.
  int64_t newest_step = -1;
  for (const v1::Checkpoint& named : entry.job().checkpoints()) {
    if (entry.lineage().Contains(named.attempt(), named.step())) {
      newest_step = std::max(newest_step, named.step());
    }
  }
  const v1::TrainingStateKey* begun = entry.lineage().NewestState();
  if (newest_step < 0 && begun != nullptr) newest_step = begun->step();
  const auto best = std::find_if(
      states.rbegin(), states.rend(),
      [&](const auto& state) { return CanBeHad(entry, state, now); });
  if (const std::string worker = Unreported(entry, now); !worker.empty()) {
    choice.kind = StartChoice::kWait;
    choice.brief = true;
    choice.text = absl::StrCat("waiting for worker ", worker,
                               " to report after the coordinator's restart");
    return choice;
  }
  const bool found = best != states.rend();
  if (found && best->first.first >= newest_step) {
    choice.kind = StartChoice::kState;
    choice.state = Key(best->second.known_attempt, best->first.first);
    if (begun != nullptr && choice.state.step() < begun->step()) {
      choice.given_up_step = begun->step();
      choice.text = "no connected worker has that state any more";
    }
    return choice;
  }
  if (newest_step < 0) {
    if (!entry.lineage().EndsExcluded()) return choice;
    choice.kind = StartChoice::kLost;
    choice.text = "none of its checkpoints can be read";
    return choice;
  }
  const State* newest = nullptr;
  for (const auto& [key, state] : states) {
    if (key.first == newest_step) newest = &state;
  }
  Absence absence = Describe(entry, newest_step, newest);
  choice.remedy = std::move(absence.remedy);
  const auto since = entry.holder_wait();
  const bool aside = IsAside(entry, Key(0, newest_step), now);
  const bool for_room = aside && entry.aside()->for_room;
  if (!since || for_room || now < holders_back_at_ ||
      now - *since < options_->checkpoint_wait) {
    choice.kind = StartChoice::kWait;
    choice.brief = for_room;
    choice.text = aside ? entry.aside()->text : std::move(absence.wait);
    return choice;
  }
  choice.text = std::move(absence.lost);
  choice.kind = StartChoice::kLost;
  if (found) {
    choice.kind = StartChoice::kState;
    choice.state = Key(best->second.known_attempt, best->first.first);
    choice.given_up_step = newest_step;
  }
  return choice;
}

bool StartChooser::CanRead(const JobEntry& entry,
                           const v1::TrainingStateKey& state,
                           const WorkerState& worker, absl::Time now) const {
  if (worker.HoldsState(entry.name(), state)) return true;
  for (const auto& [key, known] : Collect(entry, now)) {
    if (SameState(key.second, key.first, state.attempt(), state.step()) &&
        known.durable) {
      return true;
    }
  }
  const std::vector<const WorkerState*> others = peers_->Holders(entry.name());
  return std::any_of(
      others.begin(), others.end(), [&](const WorkerState* other) {
        return other->HoldsState(entry.name(), state) &&
               other->IsConnected(now, options_->suspect_after) &&
               other->CanBeReachedFrom(worker.host());
      });
}

std::set<std::pair<std::string, std::string>> StartChooser::HoldersOf(
    const JobEntry& entry, const v1::TrainingStateKey& state,
    absl::Time now) const {
  std::set<std::pair<std::string, std::string>> found;
  for (const WorkerState* worker : peers_->Holders(entry.name())) {
    if (worker->HoldsState(entry.name(), state) &&
        worker->IsConnected(now, options_->suspect_after)) {
      found.emplace(worker->id(), worker->incarnation());
    }
  }
  return found;
}

StartChooser::States StartChooser::Collect(const JobEntry& entry,
                                           absl::Time now) const {
  States states;
  for (const v1::Checkpoint& named : entry.job().checkpoints()) {
    if (!entry.lineage().Contains(named.attempt(), named.step())) continue;
    State& state = states[{named.step(), named.attempt()}];
    state.durable = named.durable();
    if (state.durable) state.known_attempt = named.attempt();
    for (const std::string& id : named.workers()) {
      const WorkerState* worker = workers_->Find(id);
      if (worker == nullptr ||
          !worker->IsConnected(now, options_->suspect_after)) {
        state.absent.push_back(id);
      }
    }
  }
  for (const WorkerState* worker : peers_->Holders(entry.name())) {
    const bool connected = worker->IsConnected(now, options_->suspect_after);
    for (const v1::HeldCheckpoint& held :
         worker->checkpoints().at(entry.name())) {
      AddHeld(entry, worker, held, connected, &states);
    }
  }
  for (const v1::HeldCheckpoint& stored : peers_->Stored(entry)) {
    AddHeld(entry, nullptr, stored, /*connected=*/false, &states);
  }
  return states;
}

void StartChooser::AddHeld(const JobEntry& entry, const WorkerState* worker,
                           const v1::HeldCheckpoint& held, bool connected,
                           States* states) const {
  if (held.place() == v1::HeldCheckpoint::PLACE_UNSPECIFIED ||
      held.attempt() > entry.job().attempt()) {
    return;
  }
  auto at = std::find_if(states->begin(), states->end(), [&](const auto& one) {
    return SameState(one.first.second, one.first.first, held.attempt(),
                     held.step());
  });
  if (at == states->end()) {
    if (!entry.lineage().Contains(held.attempt(), held.step())) return;
    at = states->try_emplace({held.step(), held.attempt()}).first;
  }
  State& state = at->second;
  if (held.place() == v1::HeldCheckpoint::DURABLE) {
    state.durable = true;
  } else if (connected) {
    if (state.holders.empty() || state.holders.back() != worker) {
      state.holders.push_back(worker);
    }
  } else {
    return;
  }
  state.known_attempt = std::max(state.known_attempt, held.attempt());
}

bool StartChooser::CanBeHad(const JobEntry& entry,
                            const States::value_type& state,
                            absl::Time now) const {
  const State& known = state.second;
  if (!IsAside(entry, Key(state.first.second, state.first.first), now)) {
    return known.durable || !known.holders.empty();
  }
  return std::any_of(known.holders.begin(), known.holders.end(),
                     [&](const WorkerState* worker) {
                       return !Knows(*entry.aside(), *worker);
                     });
}

std::string StartChooser::Unreported(const JobEntry& entry,
                                     absl::Time now) const {
  if (now >= holders_known_at_) return "";
  std::vector<std::string> expected(entry.record().last_workers().begin(),
                                    entry.record().last_workers().end());
  if (!entry.job().checkpoints().empty()) {
    const v1::Checkpoint& newest = *entry.job().checkpoints().rbegin();
    expected.insert(expected.end(), newest.workers().begin(),
                    newest.workers().end());
  }
  for (const std::string& id : expected) {
    const WorkerState* worker = workers_->Find(id);
    if (worker == nullptr || !worker->attached()) return id;
  }
  return "";
}

StartChooser::Absence StartChooser::Describe(const JobEntry& entry,
                                             int64_t step,
                                             const State* state) const {
  const std::string it = absl::StrCat("its checkpoint of step ", step);
  std::vector<std::string> whom;
  if (state != nullptr) {
    whom = state->absent;
    for (const WorkerState* holder : state->holders) {
      whom.push_back(holder->id());
    }
  }
  const std::string waited = absl::FormatDuration(options_->checkpoint_wait);
  if (!whom.empty()) {
    const char* which = whom.size() == 1 ? "which holds " : "which hold ";
    return {absl::StrCat("waiting for ", Whom(whom), ", ", which, it),
            absl::StrCat(it, " could not be had within ", waited, " from ",
                         Whom(whom), ", ", which, "it"),
            absl::StrCat(Whom(whom), " is back")};
  }
  if (state != nullptr && state->durable) {
    return {absl::StrCat("waiting for ", it, " in the shared store"),
            absl::StrCat(it, " could not be had within ", waited,
                         " from the shared store"),
            "the store is back"};
  }
  std::string last;
  if (entry.record().last_workers_size() > 0) {
    last = absl::StrCat("; the last attempt ran on ",
                        absl::StrJoin(entry.record().last_workers(), ", "));
  }
  return {absl::StrCat("waiting for ", it, ", which no worker has now"),
          absl::StrCat("no worker has ", it, " any more", last),
          "a worker that has it is back"};
}

}  // namespace comera::server
