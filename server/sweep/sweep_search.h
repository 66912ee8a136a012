#ifndef COMERA_SERVER_SWEEP_SWEEP_SEARCH_H_
#define COMERA_SERVER_SWEEP_SWEEP_SEARCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/progress.pb.h"
#include "proto/search_target.h"
#include "proto/sweep_plan.h"
#include "server/sweep/search_rule.h"
#include "server/sweep/sweep_record.pb.h"

namespace comera::server {

// A job of a search: a run, or an early stage that several runs share.
struct SearchChild {
  bool stage = false;
  int index = 0;
};

// Steers a sweep whose job's method is AUTO: successive halving over what
// `job.budget` allows. In each round every candidate may spend as much as every
// other, and is then paused; the worse half is stopped, and the allowance of
// the others is doubled, counting what they have spent. The last two run to
// their ends. Candidates that share an early stage compete as one while it
// lasts.
//
// Where the budget is a time and the job file names no steps, the first round
// also measures speed: its survivors start over with as many steps as fit into
// what is left.
//
// Works on a record, which it changes, and on its plan, which it only reads;
// both must outlive it. All that it decides from is in the record, so that a
// search goes on after a restart. No clock, IO or locks.
class SweepSearch {
 public:
  SweepSearch(SweepRecord* record, const SweepPlan* plan);

  // Begins the first round; once. `parallel` is how many jobs the cluster can
  // run side by side.
  void Begin(int parallel);

  // Takes a job's newest figures. `time` and `attempt` are those of the event.
  void OnMetrics(const SearchChild& child, const v1::StepMetrics& metrics,
                 absl::Time time, int64_t attempt);
  void OnResult(const SearchChild& child, const v1::TrainingResult& result);

  // What is to be done now.
  struct Decision {
    std::vector<std::string> pause, resume;
    // Jobs to cancel and create again with the specification of PlannedSpec().
    std::vector<SearchChild> start_over;
    // Whether a new round has begun, or children are to be stopped: their
    // records name the reason (SweepChild.dominated).
    bool changed = false;
  };
  Decision Decide();

  // Whether the child has spent its share of the round and is to be paused.
  bool IsDue(const SearchChild& child) const;
  // Whether the waiting run may start: its early stage has left it something
  // of this round's allowance.
  bool MayStart(int run) const;
  // `spec` of a run or stage, with the steps that it is planned with by now.
  v1::JobSpec PlannedSpec(const SearchChild& child, v1::JobSpec spec) const;

  // What the run has reached, in words.
  std::string WordsOf(int run) const;
  // Names the result and the reason for it, once all runs have ended. Nothing
  // if none has a model.
  std::optional<SearchChoice> Conclude();

 private:
  SweepChild& Of(const SearchChild& child);
  const SweepChild& Of(const SearchChild& child) const;
  v1::SearchState& state() {
    return *record_->mutable_sweep()->mutable_search();
  }
  SearchRecord& search() { return *record_->mutable_search(); }
  const SearchRecord& search() const { return record_->search(); }
  const v1::Sweep& sweep() const { return record_->sweep(); }

  bool InTime() const;
  // What all children have spent together: steps, process-seconds, or, for a
  // time budget, seconds summed over the jobs.
  double TotalSpent() const;
  // How many jobs a time by the clock pays for at once; 1 for other budgets.
  int Parallel() const;
  // What the search has used of its budget: by the clock for a time budget.
  double BudgetSpent() const;
  // What the present round has taken so far, likewise.
  double RoundSpent() const;
  // What the child's current job has spent, plus what the early stage that it
  // continues has spent.
  double SpentFor(const SearchChild& child) const;
  bool IsSpent(const SearchChild& child) const;
  // Validations that say how good the child is, oldest first.
  const google::protobuf::RepeatedPtrField<QualitySample>& QualitiesOf(
      const SearchChild& child) const;
  // The final number of parameters; 0 if not known yet.
  int64_t ExpectedSize(int run) const;
  double QualityOf(const v1::StepMetrics& metrics, bool* known) const;
  double QualityOf(const v1::TrainingResult& result) const;

  // The children that still compete.
  std::vector<SearchChild> Live() const;
  bool HasRested(const SearchChild& child) const;
  SearchEntrant Describe(const SearchChild& child, int id) const;
  void Stop(const SearchChild& child, const std::string& reason);
  // Stops what turns out to be above the target size.
  bool StopTooLarge();
  // Stops early stages none of whose runs goes on.
  void StopIdleStages();
  // Stops what can no longer be the smallest model that meets the quality.
  bool StopLarger();
  bool AllHaveRested(const std::vector<SearchChild>& live) const;
  void EndRound(Decision* decision);
  void BeginRound(const std::vector<SearchChild>& live, Decision* decision);
  // Plans the child's job anew so that it spends `share`, unless its plan fits.
  void StartOver(const SearchChild& child, double share, Decision* decision);
  // Whether the survivors of the first round are to start over.
  bool IsMeasuring() const;

  SweepRecord* const record_;
  const SweepPlan* const plan_;
  const SearchTarget target_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SWEEP_SWEEP_SEARCH_H_
