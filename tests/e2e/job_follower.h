#ifndef COMERA_TESTS_E2E_JOB_FOLLOWER_H_
#define COMERA_TESTS_E2E_JOB_FOLLOWER_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "tests/e2e/process.h"

namespace comera::e2e {

// Reads a job's events from `comera watch -o json` and keeps what they report.
class JobFollower {
 public:
  // `argv` is the command that prints the events.
  JobFollower(const std::vector<std::string>& argv,
              const std::string& stderr_path)
      : process_(argv, stderr_path) {}

  // Reads one event. Returns false if there are no more, or none comes within
  // `limit`.
  bool Next(absl::Duration limit);
  // Reads events until `reached` is true; returns false if it never is.
  template <typename Condition>
  bool Until(Condition reached, absl::Duration limit) {
    while (!reached(*this)) {
      if (!Next(limit)) return false;
    }
    return true;
  }
  // Whether the job trains and could resume from a checkpoint.
  static bool HasCheckpoint(const JobFollower& job) {
    return job.checkpoint_step >= 0 && job.last_step > job.checkpoint_step;
  }
  // Reads to the end of the stream; returns the command's exit code.
  std::optional<int> Finish(absl::Duration limit);

  // How often training began, by attempt.
  std::map<int64_t, int> runs_of_attempt;
  int64_t last_step = -1, checkpoint_step = -1, resumed_from = 0;
  int64_t attempt = 0;
  // The values of the newest state change.
  std::string state, outcome, reason;
  // The classes and messages of failed attempts.
  std::vector<std::string> incidents;
  std::optional<double> final_loss;
  // Lines that were not JSON, and sequence numbers that came twice.
  std::vector<std::string> faults;

 private:
  void Apply(const nlohmann::json& event);

  Process process_;
  int64_t last_sequence_ = 0;
};

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_JOB_FOLLOWER_H_
