#ifndef COMERA_TESTS_E2E_CHAOS_STORE_WATCH_H_
#define COMERA_TESTS_E2E_CHAOS_STORE_WATCH_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/job.pb.h"

namespace comera::e2e {

// Looks into the shared store of checkpoints, which no fault touches: as long
// as a job may go on, it keeps the newest of the job's states there. No client
// sees them go, because disks and other workers have them, too. Not
// thread-safe.
class StoreWatch {
 public:
  // The folder of the store.
  explicit StoreWatch(std::string folder) : folder_(std::move(folder)) {}

  // Takes the answer to a client that asked at the time `asked` for all jobs
  // that have not succeeded, and looks for their states.
  void Check(const std::vector<v1::Job>& jobs, absl::Time asked,
             absl::Time now);
  // One sentence for each job that lost all its states in the store.
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  bool HasState(const std::string& job) const;

  const std::string folder_;
  // Jobs that had a state in the store and were not final since.
  std::set<std::string> kept_;
  // When they were first found to have none.
  std::map<std::string, absl::Time> empty_since_;
  std::set<std::string> told_;
  std::vector<std::string> violations_;
};

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_STORE_WATCH_H_
