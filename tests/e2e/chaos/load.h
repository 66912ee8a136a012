#ifndef COMERA_TESTS_E2E_CHAOS_LOAD_H_
#define COMERA_TESTS_E2E_CHAOS_LOAD_H_

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/sweep_client.h"
#include "client/training_client.h"
#include "comera/v1/job.pb.h"
#include "comera/v1/sweep_service.pb.h"
#include "tests/e2e/chaos/evidence.h"
#include "tests/e2e/chaos/owner.h"
#include "tests/e2e/chaos/store_watch.h"

namespace grpc {
class Channel;
}

namespace comera::e2e {

// The options of clients of a service that is being disturbed: calls end within
// seconds, and their callers try again.
client::TrainingClient::Options ChaosClientOptions();

// A channel that tries all coordinators, each of which passes calls on to the
// leader.
std::shared_ptr<grpc::Channel> AnyCoordinator(const std::string& addresses);

// Uploads the folder as the dataset that ChaosSpecs() names.
absl::Status UploadChaosDataset(const std::string& addresses,
                                const std::string& corpus);

// A client that keeps a number of jobs under way, on a thread of its own from
// construction to Finish(). It repeats a submission under its request id until
// a coordinator accepts it.
class ChaosLoad {
 public:
  struct Options {
    // The addresses of all coordinators, separated by commas.
    std::string addresses;
    int under_way = 20;
    // The number of jobs to submit; 0 means as many as time allows.
    int total = 0;
    // Whether to act as the jobs' owner.
    bool meddle = false;
    // Whether to submit sweeps, of the first specification.
    bool sweeps = false;
    // The shared store of checkpoints, which is looked at while jobs run;
    // empty: it is not.
    std::string store;
    // Whether the owner only pauses and resumes jobs, and none starts from
    // another.
    bool plain = false;
  };
  ChaosLoad(const Options& options, std::vector<v1::JobSpec> specs);
  ~ChaosLoad();

  // Stops submitting, resumes what is paused, failed or was cancelled, and
  // waits until every job and sweep is final. Returns false if that takes
  // longer than `limit`.
  bool Finish(absl::Duration limit);
  // The request id and job of each accepted submission.
  std::map<std::string, std::string> accepted() const;
  std::vector<std::string> accepted_sweeps() const;
  // What was asked of the jobs, and answered wrongly.
  std::map<std::string, Wishes> wishes() const;
  std::vector<std::string> wrong_answers() const;
  // The accepted sweeps as they are now. A status of the client: the service
  // does not answer.
  absl::StatusOr<std::map<std::string, v1::Sweep>> ReadSweeps();

 private:
  void Loop();
  // Checks the jobs once and submits new ones in place of those that ended.
  void Round();
  // Submits the next job, or the same one again; returns whether one was
  // accepted.
  bool Submit(bool finishing);
  // Looks for a job whose early stage others can start from.
  void FindEarlyStage();
  // Submits the next sweep, or the same one again until it is accepted.
  void SubmitSweep();
  bool SweepsEnded();
  bool Stopping() const;

  const Options options_;
  const std::unique_ptr<client::TrainingClient> client_;
  client::SweepClient sweeps_;
  JobOwner owner_;          // used by the thread alone
  StoreWatch store_watch_;  // used by the thread alone
  const std::vector<v1::JobSpec> specs_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool finishing_ = false, stopping_ = false;    // guarded by mutex_
  bool idle_ = false;                            // guarded by mutex_
  std::map<std::string, std::string> accepted_;  // guarded by mutex_
  std::vector<std::string> accepted_sweeps_;     // guarded by mutex_
  std::map<std::string, Wishes> wishes_;         // guarded by mutex_
  std::vector<std::string> wrong_answers_;       // guarded by mutex_
  // The following members are used by the thread alone.
  int next_ = 0;
  // Submission next_, until it is accepted.
  std::optional<v1::JobSpec> pending_;
  // Whether sweep next_sweep_ was sent and not answered.
  bool unsure_of_sweep_ = false;
  // The checkpoint that holds an early stage; empty: none is known yet.
  std::string early_stage_;
  int round_ = 0, next_sweep_ = 0;
  std::thread thread_;
};

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_LOAD_H_
