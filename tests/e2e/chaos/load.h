#ifndef COMERA_TESTS_E2E_CHAOS_LOAD_H_
#define COMERA_TESTS_E2E_CHAOS_LOAD_H_

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "client/training_client.h"
#include "comera/v1/job.pb.h"

namespace comera::e2e {

// Small jobs over the text in `corpus`, of which none differ only by name: one
// and two members, several seeds. Their display_name tells them apart.
std::vector<v1::JobSpec> ChaosSpecs(const std::string& corpus, int steps);

// A client that keeps a number of jobs under way, on a thread of its own from
// construction to Finish(). A submission is repeated under its request id until
// the coordinator says that it is accepted.
class ChaosLoad {
 public:
  // `total`: jobs to submit at most, 0: as many as there is time for.
  ChaosLoad(const std::string& address, std::vector<v1::JobSpec> specs,
            int under_way, int total);
  ~ChaosLoad();

  // Submits no more and waits until every job is final. False: not within
  // `limit`.
  bool Finish(absl::Duration limit);
  // Request id and job of each accepted submission.
  std::map<std::string, std::string> accepted() const;

 private:
  void Loop();
  // One look at the jobs, and submissions for what is missing.
  void Round();
  bool Stopping() const;

  const std::unique_ptr<client::TrainingClient> client_;
  const std::vector<v1::JobSpec> specs_;
  const int under_way_, total_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool finishing_ = false, stopping_ = false;    // guarded by mutex_
  bool idle_ = false;                            // guarded by mutex_
  std::map<std::string, std::string> accepted_;  // guarded by mutex_
  // The thread's own.
  int next_ = 0;
  // Whether submission next_ was sent and not answered.
  bool unsure_ = false;
  std::thread thread_;
};

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_LOAD_H_
