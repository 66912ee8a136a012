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

// Returns small jobs over the text in `corpus`: one and two members, several
// seeds. No two differ only by name; their display_name distinguishes them.
std::vector<v1::JobSpec> ChaosSpecs(const std::string& corpus, int steps);

// A client that keeps a number of jobs under way, on a thread of its own from
// construction to Finish(). It repeats a submission under its request id until
// the coordinator accepts it.
class ChaosLoad {
 public:
  // `total` is the number of jobs to submit; 0 means as many as time allows.
  ChaosLoad(const std::string& address, std::vector<v1::JobSpec> specs,
            int under_way, int total);
  ~ChaosLoad();

  // Stops submitting and waits until every job is final. Returns false if that
  // takes longer than `limit`.
  bool Finish(absl::Duration limit);
  // The request id and job of each accepted submission.
  std::map<std::string, std::string> accepted() const;

 private:
  void Loop();
  // Checks the jobs once and submits new ones in place of those that ended.
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
  // The following members are used by the thread alone.
  int next_ = 0;
  // Whether submission next_ was sent and not answered.
  bool unsure_ = false;
  std::thread thread_;
};

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_LOAD_H_
