// Member 0's state reaches all members of a gang.
#include "worker/trainer/loop/state_sharing.h"

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/collective/in_process_communicator.h"
#include "worker/trainer/process/failure.h"

namespace comera::trainer {
namespace {

TrainingState SomeState() {
  TrainingState state;
  state.fingerprint = "the job";
  state.progress.step = 12;
  state.ranks["head"] = {2};
  state.parameters = {1, 2, 3};
  state.first_moment = {4, 5, 6};
  state.second_moment = {7, 8, 9};
  state.nearest.emplace();
  state.nearest->ranks = state.ranks;
  state.nearest->parameters = {3, 2, 1};
  return state;
}

// Shares SomeState in a gang of two; the other member trains `fingerprint`.
std::vector<absl::Status> Share(const std::string& fingerprint,
                                std::vector<TrainingState>* states) {
  auto gang = collective::CreateInProcessGroup(2);
  *states = {SomeState(), TrainingState()};
  std::vector<absl::Status> statuses(2);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      statuses[i] = ShareState(gang[i].get(), i == 0 ? "the job" : fingerprint,
                               &(*states)[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

TEST(StateSharingTest, AllMembersGetAllButTheNearestModel) {
  std::vector<TrainingState> states;
  for (const absl::Status& status : Share("the job", &states)) {
    ASSERT_OK(status);
  }
  EXPECT_EQ(states[1].progress.step, 12);
  EXPECT_EQ(states[1].ranks, states[0].ranks);
  EXPECT_EQ(states[1].parameters, states[0].parameters);
  EXPECT_EQ(states[1].second_moment, states[0].second_moment);
  EXPECT_FALSE(states[1].nearest.has_value());
  EXPECT_TRUE(states[0].nearest.has_value());
}

TEST(StateSharingTest, AllMembersGetTheNearestModel) {
  auto gang = collective::CreateInProcessGroup(2);
  std::optional<NearestModel> nearest = SomeState().nearest;
  nearest->size = 77;
  nearest->small_enough = true;
  nearest->validation.step = 9;
  std::vector<absl::StatusOr<NearestModel>> shared(2,
                                                   absl::UnknownError("none"));
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      shared[i] = ShareNearest(gang[i].get(), i == 0 ? nearest : std::nullopt);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::StatusOr<NearestModel>& got : shared) {
    ASSERT_OK(got);
    EXPECT_EQ(got->ranks, nearest->ranks);
    EXPECT_EQ(got->parameters, nearest->parameters);
    EXPECT_EQ(got->size, 77);
    EXPECT_TRUE(got->small_enough);
    EXPECT_EQ(got->validation.step, 9);
  }
  EXPECT_THAT(ShareNearest(nullptr, std::nullopt),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_OK(ShareNearest(nullptr, nearest));
}

TEST(StateSharingTest, AMemberOfAnotherJobRefuses) {
  std::vector<TrainingState> states;
  const auto statuses = Share("another job", &states);
  EXPECT_OK(statuses[0]);
  EXPECT_THAT(statuses[1], StatusIs(absl::StatusCode::kInternal));
}

TEST(StateSharingTest, AGangOfOneSharesNothing) {
  TrainingState state = SomeState();
  EXPECT_OK(ShareState(nullptr, "the job", &state));
  EXPECT_EQ(state.progress.step, 12);
}

TEST(StateSharingTest, ALostMemberIsACollectiveHang) {
  auto gang = collective::CreateInProcessGroup(2);
  gang[1].reset();
  TrainingState state = SomeState();
  const absl::Status status = ShareState(gang[0].get(), "the job", &state);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(FailureClassOf(status), v1::COLLECTIVE_HANG);
}

}  // namespace
}  // namespace comera::trainer
