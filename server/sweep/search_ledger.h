// What the jobs of a search have spent and reached.
#ifndef COMERA_SERVER_SWEEP_SEARCH_LEDGER_H_
#define COMERA_SERVER_SWEEP_SEARCH_LEDGER_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "comera/v1/progress.pb.h"
#include "proto/sweep/search_target.h"
#include "proto/sweep/sweep_plan.h"
#include "server/sweep/search_rule.h"
#include "server/sweep/sweep_record.pb.h"

namespace comera::server {

// A job of a search: a run, or an early stage that several runs share.
struct SearchChild {
  bool stage = false;
  int index = 0;

  bool operator==(const SearchChild& other) const {
    return stage == other.stage && index == other.index;
  }
};

// Whether nothing more comes of a run or stage in this state.
bool IsOver(v1::SweepRunState state);

// Whether a candidate's learning is not slowing down yet: per unit spent, its
// loss fell at least as fast over the second half of its training so far as
// over the quarter before. Also true of a loss that has not fallen at all, in
// the first fifth of the training. False once half of the training is over, and
// for a model that has lost half of its parameters since its first validation.
// `full_share` is what a candidate spends that is never stopped; `samples` are
// not empty, the oldest first.
bool IsSpeedingUp(
    const google::protobuf::RepeatedPtrField<QualitySample>& samples,
    double full_share);

// Keeps the figures of a search's jobs in the sweep's record, and answers what
// they say of a candidate. Works on a record, which it changes, and on its
// plan, which it only reads; both must outlive it. No clock, IO or locks.
class SearchLedger {
 public:
  SearchLedger(SweepRecord* record, const SweepPlan* plan);

  // Takes a job's newest figures. `time` and `attempt` are those of the event.
  void OnMetrics(const SearchChild& child, const v1::StepMetrics& metrics,
                 absl::Time time, int64_t attempt);
  void OnResult(const SearchChild& child, const v1::TrainingResult& result);

  const SearchTarget& target() const { return target_; }
  SweepChild& Of(const SearchChild& child);
  const SweepChild& Of(const SearchChild& child) const;
  // Whether the budget is a time, not a number of steps.
  bool InTime() const;

  // What all children have spent together: steps, process-seconds, or, for a
  // time budget, seconds summed over the jobs.
  double TotalSpent() const;
  // What the child's current job has spent, plus what the early stage that it
  // continues has spent.
  double SpentFor(const SearchChild& child) const;

  // Validations that say how good the child is, oldest first.
  const google::protobuf::RepeatedPtrField<QualitySample>& QualitiesOf(
      const SearchChild& child) const;
  // The final number of parameters; 0 if not known yet.
  int64_t ExpectedSize(int run) const;
  // The final number of parameters by the job's specification alone, for a run
  // whose method keeps its size; 0: it does not say.
  int64_t PlannedSize(int run) const;
  // The child as the rule compares it.
  SearchEntrant Describe(const SearchChild& child, int id) const;
  // What the run has reached, in words.
  std::string WordsOf(int run) const;

 private:
  const v1::Sweep& sweep() const { return record_->sweep(); }
  // The number of parameters by the newest figures of the run or its stage; 0:
  // there are none.
  int64_t FirstSize(int run) const;
  // SearchEntrant::learns_late of a run.
  bool LearnsLate(int run) const;
  double QualityOf(const v1::StepMetrics& metrics, bool* known) const;
  double QualityOf(const v1::TrainingResult& result) const;

  SweepRecord* const record_;
  const SweepPlan* const plan_;
  const SearchTarget target_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SWEEP_SEARCH_LEDGER_H_
