// Implements TrainingLineage: the shortest list of starts that still decides
// which saved states are valid.
#include "server/coordinator/job/training_lineage.h"

namespace comera::server {
namespace {

bool IsExclusion(const AttemptStart& start) {
  return start.from().attempt() == start.attempt();
}

void Append(int64_t attempt, const v1::TrainingStateKey& from,
            AttemptStarts* starts) {
  while (!starts->empty() && (starts->rbegin()->attempt() >= attempt ||
                              starts->rbegin()->from().step() >= from.step())) {
    starts->RemoveLast();
  }
  AttemptStart& start = *starts->Add();
  start.set_attempt(attempt);
  *start.mutable_from() = from;
  while (starts->size() > kMaxAttemptStarts) {
    *starts->Mutable(1)->mutable_from() = starts->Get(0).from();
    starts->erase(starts->begin());
  }
}

}  // namespace

bool TrainingLineage::Contains(int64_t attempt, int64_t step) const {
  for (const AttemptStart& start : *starts_) {
    // The steps ascend, so the first one is the lowest of all later ones.
    if (start.attempt() > attempt) return step <= start.from().step();
  }
  return true;
}

const v1::TrainingStateKey* TrainingLineage::StartOf(int64_t attempt) const {
  if (starts_->empty() || starts_->rbegin()->attempt() != attempt) {
    return nullptr;
  }
  return &starts_->rbegin()->from();
}

const v1::TrainingStateKey* TrainingLineage::NewestState() const {
  if (starts_->empty() || EndsExcluded()) return nullptr;
  const v1::TrainingStateKey& from = starts_->rbegin()->from();
  return IsState(from) ? &from : nullptr;
}

bool TrainingLineage::EndsExcluded() const {
  return !starts_->empty() && IsExclusion(*starts_->rbegin());
}

void AddStart(int64_t attempt, const v1::TrainingStateKey& from,
              AttemptStarts* starts) {
  v1::TrainingStateKey key = from;
  // A state of its own would read as an exclusion.
  if (key.attempt() >= attempt) key.set_attempt(0);
  Append(attempt, key, starts);
}

void ExcludeStates(int64_t attempt, int64_t step, AttemptStarts* starts) {
  v1::TrainingStateKey before;
  before.set_attempt(attempt);
  before.set_step(step - 1);
  Append(attempt, before, starts);
}

bool SameState(int64_t attempt, int64_t step, int64_t other_attempt,
               int64_t other_step) {
  return step == other_step &&
         (attempt == other_attempt || attempt == 0 || other_attempt == 0);
}

}  // namespace comera::server
