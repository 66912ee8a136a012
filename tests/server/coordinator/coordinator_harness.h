#ifndef COMERA_TESTS_SERVER_COORDINATOR_COORDINATOR_HARNESS_H_
#define COMERA_TESTS_SERVER_COORDINATOR_COORDINATOR_HARNESS_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/coordinator/coordinator.h"
#include "tests/server/sequential_ids.h"
#include "tests/server/test_spec.h"

namespace comera::server {

// A coordinator with a clock of its own, and the records that it asked to have
// stored. Not thread-safe.
class CoordinatorHarness {
 public:
  explicit CoordinatorHarness(const Coordinator::Options& options = {})
      : options_(options) {
    coordinator = std::make_unique<Coordinator>(options_, &ids_);
    coordinator->Load({}, now);
  }

  // A worker as the coordinator sees it.
  struct Worker {
    std::string id;
    std::string incarnation = "i1";
    int slots = 2;
    int64_t seen_version = 0;
    std::vector<v1::MemberStatus> members = {};
    std::vector<v1::ProgressReport> reports = {};
    std::vector<v1::RendezvousEntry> rendezvous = {};
    absl::Duration hold = absl::ZeroDuration();
    // GPU names by index of the slot; the other slots are CPU slots.
    std::map<int, std::string> gpus = {};
    std::map<int, std::string> unfit = {};
    std::string host = "";
    std::string peer_address = "";
    std::vector<v1::HeldCheckpoint> checkpoints = {};
    std::vector<v1::MemberTrouble> troubles = {};
    bool runs_programs = false;
  };

  std::string Submit(int ranks = 2);
  std::string Submit(const v1::JobSpec& spec);
  absl::StatusOr<v1::Job> Cancel(const std::string& name);
  // The answer, or the reason why there is none. Unavailable: the call is held.
  absl::StatusOr<v1::SynchronizeResponse> Sync(Worker& worker);
  // Lets the worker register, and then report its desired members in `phase`.
  v1::SynchronizeResponse Follow(Worker& worker, v1::MemberStatus::Phase phase);
  void Advance(absl::Duration duration);
  // Starts a fresh coordinator with the stored records. `lead`: its clock is so
  // far ahead, and is not believed.
  void Restart(absl::Duration lead = absl::ZeroDuration());

  // The job as it was stored last.
  const v1::Job& job(const std::string& name) { return stored.at(name).job(); }
  std::vector<std::string> States(const std::string& name) const;

  absl::Time now = absl::FromUnixSeconds(1000000);
  std::unique_ptr<Coordinator> coordinator;
  std::map<std::string, JobRecord> stored;
  std::map<std::string, std::string> reasons;
  std::vector<v1::JobEvent> events;
  std::vector<WorkerProbe> probes;
  std::vector<Document> documents;
  std::map<int64_t, absl::StatusOr<v1::SynchronizeResponse>> replies;
  int64_t last_call = 0;
  // The processor time that the coordinator took.
  absl::Duration busy = absl::ZeroDuration();
  // There are no scheduling passes.
  bool paused = false;
  // A scheduling pass is followed by a pause so many times as long, as the host
  // has it in a large cluster.
  int pause_after_pass = 0;

  void Take(Effects effects);
  void Schedule();

 private:
  const Coordinator::Options options_;
  absl::Time next_pass_ = absl::InfinitePast();
  SequentialIds ids_;
};

v1::MemberStatus Status(const std::string& job, int64_t attempt, int32_t rank,
                        v1::MemberStatus::Phase phase, int32_t slot = 0);
v1::MemberStatus Failed(const std::string& job, int64_t attempt, int32_t rank,
                        v1::FailureClass failure_class, absl::Time time);
// Member 0, which ended with a result and without a model.
v1::MemberStatus Result(const std::string& job, int64_t attempt);
v1::ProgressReport Metrics(const std::string& job, int64_t attempt,
                           int64_t number, int64_t step);

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_COORDINATOR_COORDINATOR_HARNESS_H_
