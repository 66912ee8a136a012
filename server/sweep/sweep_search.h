#ifndef COMERA_SERVER_SWEEP_SWEEP_SEARCH_H_
#define COMERA_SERVER_SWEEP_SWEEP_SEARCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/progress.pb.h"
#include "proto/sweep/sweep_plan.h"
#include "server/sweep/search_groups.h"
#include "server/sweep/search_ledger.h"
#include "server/sweep/search_rule.h"
#include "server/sweep/sweep_record.pb.h"

namespace comera::server {

// Steers a sweep whose job's method is AUTO: successive halving over what
// `job.budget` allows. In each round every candidate may spend as much as every
// other, and is then paused; the worse half is stopped, and the allowance of
// the others is doubled, counting what they have spent. The last two run to
// their ends. Candidates that share an early stage compete as one while it
// lasts.
//
// Where the smallest model that meets a quality is looked for, and the time of
// each job counts against the budget, the first rounds are played by one group
// of candidates after another (search_groups.h), the smallest first. A group
// goes on while the figures of one of its candidates promise the quality.
// Candidates then take turns, the smallest first, as many side by side as the
// cluster has room for.
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
  void OnResult(const SearchChild& child, const v1::TrainingResult& result) {
    ledger_.OnResult(child, result);
  }

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
  // Whether the waiting run or stage may start: it is its turn, and its early
  // stage has left it something of this round's allowance.
  bool MayStart(const SearchChild& child) const;
  // `spec` of a run or stage, with the steps that it is planned with by now.
  v1::JobSpec PlannedSpec(const SearchChild& child, v1::JobSpec spec) const;

  // What the run has reached, in words.
  std::string WordsOf(int run) const { return ledger_.WordsOf(run); }
  // Names the result and the reason for it, once all runs have ended. Nothing
  // if none has a model.
  std::optional<SearchChoice> Conclude();

 private:
  v1::SearchState& state() {
    return *record_->mutable_sweep()->mutable_search();
  }
  SearchRecord& search() { return *record_->mutable_search(); }
  const SearchRecord& search() const { return record_->search(); }
  const v1::Sweep& sweep() const { return record_->sweep(); }

  // How many jobs a time by the clock pays for at once; 1 for other budgets.
  int Parallel() const;
  // What the search has used of its budget: by the clock for a time budget.
  double BudgetSpent() const;
  // What the present round has taken so far, likewise.
  double RoundSpent() const;

  // Whether the candidates begin in groups, and take turns.
  bool TakesTurns() const { return search().first_share() > 0; }
  // The child's group, from 1.
  int GroupOf(const SearchChild& child) const;
  // The children that still compete, those of later groups left out.
  std::vector<SearchChild> Live() const;
  // The live children that train in this round: the present group's, or all.
  std::vector<SearchChild> Playing() const;
  // Waiting and paused children whose turn it is now.
  std::vector<SearchChild> Turns() const;
  // Children take turns in ascending order of this: by size, which is 0 where
  // it is not known. The runs of an early stage have the place of the smallest,
  // but among them the largest comes first: where it misses the quality, the
  // others would too.
  std::pair<int64_t, int64_t> PlaceInTurn(const SearchChild& child) const;
  v1::SweepRunState StateOf(const SearchChild& child) const;
  v1::JobState JobStateOf(const SearchChild& child) const;
  const std::string& JobOf(const SearchChild& child) const;

  bool IsSpent(const SearchChild& child) const;
  bool HasRested(const SearchChild& child) const;
  bool IsRoundOver() const;
  bool IsHopeful(const SearchChild& child) const;
  void StopChild(const SearchChild& child, const std::string& reason);
  // Stops those that have had half of their training and promise to miss the
  // target, where another model has met it; with a margin only those that
  // would miss it by at least this share of it, after some validations at their
  // present size. Returns whether there were any.
  bool StopHopeless(double margin);
  void StopAllBut(size_t keep, const std::vector<SearchChild>& children);
  // Ends a round of the present group, which goes on, or leaves its place to
  // the next.
  void EndGroupRound(Decision* decision);
  void BeginNextGroup(Decision* decision);
  // Ends a round in which all compete.
  void EndRound(Decision* decision);
  void BeginRound(const std::vector<SearchChild>& live, Decision* decision);
  void CountRound();
  // What it takes until each of them has spent `allowance` (0: all that a
  // candidate may spend), in the unit of the budget.
  double CostOf(const std::vector<SearchChild>& children,
                double allowance) const;
  // Plans the child's job anew so that it spends `share`, unless its plan fits.
  void StartOver(const SearchChild& child, double share, Decision* decision);
  // Whether the survivors of the first round are to start over.
  bool IsMeasuring() const;

  SweepRecord* const record_;
  const SweepPlan* const plan_;
  SearchLedger ledger_;
  const SearchGroups groups_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_SWEEP_SWEEP_SEARCH_H_
