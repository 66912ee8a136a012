#ifndef COMERA_TESTS_E2E_CHAOS_HOLDER_AWAY_H_
#define COMERA_TESTS_E2E_CHAOS_HOLDER_AWAY_H_

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "client/training_client.h"

namespace comera::e2e {

// Finds a worker to take away at the worst time: a job is paused, the worker
// with its newest checkpoint goes, and the job is resumed. Calls of the service
// take a second at most. Not thread-safe.
class HolderAway {
 public:
  // The coordinators' addresses, separated by commas.
  explicit HolderAway(const std::string& addresses);

  // Pauses a running job whose newest checkpoint is on one worker alone;
  // returns whether there was one.
  bool Begin(absl::Time now);
  bool under_way() const { return !job_.empty(); }
  const std::string& job() const { return job_; }
  // The worker to stop now, once the job is paused; then Resume() it. Nothing:
  // not yet, or it was given up after some seconds, which under_way() tells.
  std::optional<std::string> Holder(absl::Time now);
  void Resume();
  // The number of requests to resume each job.
  const std::map<std::string, int>& resumes() const { return resumes_; }

 private:
  const std::unique_ptr<client::TrainingClient> client_;
  std::string job_;
  std::map<std::string, int> resumes_;
  absl::Time give_up_ = absl::InfinitePast(), next_look_ = absl::InfinitePast();
};

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_HOLDER_AWAY_H_
