#ifndef COMERA_SERVER_COORDINATOR_JOB_TRAINING_LINEAGE_H_
#define COMERA_SERVER_COORDINATOR_JOB_TRAINING_LINEAGE_H_

#include <cstdint>

#include "comera/v1/worker_service.pb.h"
#include "google/protobuf/repeated_field.h"
#include "server/store/job_record.pb.h"

namespace comera::server {

using AttemptStarts = google::protobuf::RepeatedPtrField<AttemptStart>;

// Tells which of the states that a job's attempts saved belong to its training
// as it goes on now.
//
// An attempt that begins from step s gives up what earlier attempts did after
// s: a state that attempt a saved at step t is valid if no attempt later than a
// began before t. Hence, of two starts, the earlier one decides nothing any
// more once a later attempt began from the same or an earlier step: the starts
// that are kept ascend strictly in attempt and in step, and the first one after
// a decides on the states of a. Not thread-safe.
class TrainingLineage {
 public:
  // The stored starts; they must outlive it.
  explicit TrainingLineage(const AttemptStarts* starts) : starts_(starts) {}

  // Attempt 0 is unknown, so every start decides on its states.
  bool Contains(int64_t attempt, int64_t step) const;
  // From where the attempt began; null if that is not known. Attempt 0 and
  // step 0: the beginning.
  const v1::TrainingStateKey* StartOf(int64_t attempt) const;
  // The state that the newest known start was from; null if there is none, or
  // it was the beginning.
  const v1::TrainingStateKey* NewestState() const;
  // The newest known start is one of ExcludeStates(), so the job did save
  // something.
  bool EndsExcluded() const;

 private:
  const AttemptStarts* const starts_;
};

// More starts than this are joined at the old end, which can only make old
// states invalid.
constexpr int kMaxAttemptStarts = 64;

// The attempt, the newest so far, begins from this state. The key of attempt 0
// and step 0 is the beginning: all states before are invalid.
void AddStart(int64_t attempt, const v1::TrainingStateKey& from,
              AttemptStarts* starts);

// The attempt, the newest so far, could not read the state of this step: what
// earlier attempts saved from this step on is invalid. It is kept as a start
// from the step before, of the attempt itself.
void ExcludeStates(int64_t attempt, int64_t step, AttemptStarts* starts);

// Whether the two may be the same state: attempt 0 is unknown.
bool SameState(int64_t attempt, int64_t step, int64_t other_attempt,
               int64_t other_step);

// Whether the key is a state's, not the beginning.
inline bool IsState(const v1::TrainingStateKey& key) {
  return key.attempt() > 0 || key.step() > 0;
}

}  // namespace comera::server

#endif  // COMERA_SERVER_COORDINATOR_JOB_TRAINING_LINEAGE_H_
