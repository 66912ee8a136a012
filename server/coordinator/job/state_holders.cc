// Remembers, in a job's record, the workers that may have its training states.
#include "server/coordinator/job/state_holders.h"

#include <algorithm>

namespace comera::server {
namespace {

using Workers = google::protobuf::RepeatedPtrField<std::string>;

bool Has(const Workers& workers, const std::string& worker) {
  return std::find(workers.begin(), workers.end(), worker) != workers.end();
}

bool IsNamed(const v1::Job& job, const std::string& worker) {
  return std::any_of(job.checkpoints().begin(), job.checkpoints().end(),
                     [&](const v1::Checkpoint& checkpoint) {
                       return Has(checkpoint.workers(), worker);
                     });
}

// Adds the worker as the latest one.
void Add(const std::string& worker, const v1::Job& job, Workers* workers) {
  *workers->Add() = worker;
  if (workers->size() <= kMaxStateHolders) return;
  const auto last = workers->end() - 1;
  const auto idle =
      std::find_if(workers->begin(), last,
                   [&](const std::string& one) { return !IsNamed(job, one); });
  workers->erase(idle == last ? workers->begin() : idle);
}

}  // namespace

void NoteStateRunner(const std::string& worker, JobRecord* record) {
  Workers& runners = *record->mutable_state_runners();
  runners.erase(std::remove(runners.begin(), runners.end(), worker),
                runners.end());
  Add(worker, record->job(), &runners);
}

bool NoteStateKeeper(const std::string& worker, JobRecord* record) {
  if (Has(record->state_keepers(), worker)) return false;
  Add(worker, record->job(), record->mutable_state_keepers());
  return true;
}

void AdoptStateHolders(JobRecord* record) {
  if (record->job().attempt() == 0 || record->state_runners_size() > 0) return;
  for (const EndedAttempt& ended : record->ended_attempts()) {
    for (const std::string& worker : ended.workers()) {
      NoteStateRunner(worker, record);
    }
  }
  for (const std::string& worker : record->last_workers()) {
    NoteStateRunner(worker, record);
  }
  for (const v1::Checkpoint& checkpoint : record->job().checkpoints()) {
    for (const std::string& worker : checkpoint.workers()) {
      NoteStateRunner(worker, record);
    }
  }
}

std::vector<std::string> StateRunners(const JobRecord& record) {
  std::vector<std::string> runners(record.state_runners().begin(),
                                   record.state_runners().end());
  runners.insert(runners.end(), record.last_workers().begin(),
                 record.last_workers().end());
  return runners;
}

std::vector<std::string> StateHolders(const JobRecord& record) {
  std::vector<std::string> holders = StateRunners(record);
  holders.insert(holders.end(), record.state_keepers().begin(),
                 record.state_keepers().end());
  return holders;
}

bool MayHoldStates(const JobRecord& record, const std::string& worker) {
  return Has(record.state_runners(), worker) ||
         Has(record.state_keepers(), worker) ||
         Has(record.last_workers(), worker);
}

}  // namespace comera::server
