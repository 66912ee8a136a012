#ifndef COMERA_TESTS_WORKER_GANG_MEMBER_TABLE_FIXTURE_H_
#define COMERA_TESTS_WORKER_GANG_MEMBER_TABLE_FIXTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "comera/v1/worker_service.pb.h"
#include "gtest/gtest.h"
#include "worker/gang/member_table.h"

namespace comera::worker {

const absl::Time kNow = absl::FromUnixSeconds(1000000);

using Models = std::vector<v1::Artifact>;

inline v1::MemberAssignment Assignment(const std::string& job, int64_t attempt,
                                       int rank, int slot) {
  v1::MemberAssignment assignment;
  assignment.set_job(job);
  assignment.set_attempt(attempt);
  assignment.set_rank(rank);
  assignment.set_world_size(2);
  assignment.set_local_world_size(2);
  assignment.set_slot(slot);
  return assignment;
}

// A table of two slots, answered as a coordinator would.
class MemberTableTest : public testing::Test {
 protected:
  MemberTableTest() : table_(Slots(), [this] { return steady_; }) {}

  static std::vector<v1::Slot> Slots() {
    std::vector<v1::Slot> slots(2);
    slots[1].set_index(1);
    return slots;
  }

  // Answers with a response that wants `desired` and forgets `forget`.
  void Answer(const std::vector<v1::MemberAssignment>& desired,
              const std::vector<v1::MemberAssignment>& forget = {}) {
    v1::SynchronizeResponse response;
    for (const auto& assignment : desired) {
      *response.add_desired() = assignment;
    }
    for (const auto& assignment : forget) {
      v1::MemberKey* key = response.add_forget();
      key->set_job(assignment.job());
      key->set_attempt(assignment.attempt());
      key->set_rank(assignment.rank());
    }
    table_.OnResponse(response);
  }

  // Returns the ids of the members that Reconcile starts.
  std::vector<GangMembers::Id> Starts() {
    std::vector<GangMembers::Id> ids;
    for (const auto& start : table_.Reconcile(kNow).start) {
      ids.push_back(start.id);
    }
    return ids;
  }

  v1::SynchronizeRequest Request() {
    v1::SynchronizeRequest request;
    news_ = table_.Fill(&request);
    return request;
  }

  v1::TrainerEvent Heartbeat(int64_t step, v1::Stage stage = v1::EARLY) {
    v1::TrainerEvent event;
    event.mutable_heartbeat()->set_step(step);
    event.mutable_heartbeat()->set_stage(stage);
    return event;
  }

  v1::TrainerEvent Result() {
    v1::TrainerEvent event;
    event.mutable_result()->set_outcome(v1::TARGET_MET);
    event.mutable_result()->set_validation_loss(1.25);
    return event;
  }

  absl::Time steady_ = absl::FromUnixSeconds(5);
  MemberTable table_;
  bool news_ = false;
};

}  // namespace comera::worker

#endif  // COMERA_TESTS_WORKER_GANG_MEMBER_TABLE_FIXTURE_H_
