#ifndef COMERA_TESTS_E2E_CHAOS_BUDGET_CHECK_H_
#define COMERA_TESTS_E2E_CHAOS_BUDGET_CHECK_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"

namespace comera::e2e {

// Keeps a job's retry budget as its owner can who only reads the events, and
// checks that the service's decisions agree with it:
//   - attempts are numbered 1, 2, 3, ... and each starts once; the job's record
//     has as many;
//   - a lost attempt, and the failure of a job, have an incident of the same
//     attempt and class;
//   - a job fails only once more attempts were charged than its budget allows,
//     and does not go on then;
//   - one charge is taken back only when a state was saved that is further than
//     any before.
// Whether a checkpoint of a gang that is about to end takes a charge back is
// not visible, so the books are kept twice: with the most and with the least
// that may have been charged. Not thread-safe.
class BudgetCheck {
 public:
  explicit BudgetCheck(const v1::Job& job) : job_(job) {}

  // Takes the next event; adds to the violations.
  void Add(const v1::JobEvent& event, std::vector<std::string>* violations);
  // Compares the books with the job's record.
  void End(std::vector<std::string>* violations) const;

 private:
  // What may have been charged to one of the two budgets.
  struct Charges {
    int least = 0, most = 0;
  };
  using Books = std::map<bool, Charges>;  // by whether it is infrastructure

  void AddState(const v1::JobEvent& event,
                std::vector<std::string>* violations);
  void Start(const v1::JobEvent& event, std::vector<std::string>* violations);
  void Lose(const v1::JobEvent& event, v1::FailureClass cause,
            std::vector<std::string>* violations);
  // The attempt has ended, and nobody had asked it to.
  void SettleRefills();
  int Allowed(bool infrastructure) const;

  const v1::Job& job_;
  Books books_;
  // The books before attempt `lost_` was charged, which is taken back if its
  // members turn out to be alive.
  Books before_;
  int64_t lost_ = 0;
  // The newest attempt that started.
  int64_t started_ = 0;
  std::set<std::pair<int64_t, v1::FailureClass>> incidents_;
  int64_t best_step_ = 0;
  // Checkpoints of this attempt beyond all before, saved before anything
  // happened to it.
  int refills_ = 0;
  bool troubled_ = false;
  bool ended_ = false;
  bool missed_events_ = false;
};

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_BUDGET_CHECK_H_
