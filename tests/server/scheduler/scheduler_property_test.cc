// Holds Scheduler::Decide to its rules on random clusters and histories. A
// scenario that breaks one is made small and printed as code.
//
//   --cases=N   plays N scenarios instead of the usual few
//   --seed=N    begins with another one
//   --kind=N    plays only this Scenario::Kind
#include <cstdint>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "server/scheduler/scheduler.h"
#include "tests/server/scheduler/cluster_player.h"
#include "tests/server/scheduler/scenario.h"
#include "tests/server/scheduler/scenario_shrinker.h"

namespace comera::server {
namespace {

int64_t cases = 150;
int64_t first_seed = 1;
int64_t only_kind = -1;

// Long scenarios come rarely.
Scenario::Kind KindOf(int64_t number) {
  if (only_kind >= 0) return static_cast<Scenario::Kind>(only_kind);
  if (number % 100 == 50) return Scenario::kBacklog;
  if (number % 50 == 25) return Scenario::kWide;
  switch (number % 5) {
    case 0:
      return Scenario::kBorrowed;
    case 1:
    case 2:
      return Scenario::kPriorities;
    case 3:
      return Scenario::kForever;
    default:
      return Scenario::kMixed;
  }
}

// Plays a scenario that once broke a rule.
void ExpectNoViolation(const Scenario& scenario) {
  const Played played = ClusterPlayer(scenario, Scheduler::Decide).Play();
  if (!played.violation) return;
  ADD_FAILURE() << played.violation->rule << " in minute "
                << played.violation->minute << ": " << played.violation->what;
}

PlannedJob Planned(int minute, int queue, int priority, int processes,
                   int length, std::vector<int32_t> sizes = {}) {
  PlannedJob job;
  job.minute = minute;
  job.queue = queue;
  job.priority = priority;
  job.processes = processes;
  job.length = length;
  job.sizes = std::move(sizes);
  return job;
}

// An elastic job that was owed 2 slots took 4, was stopped for that, and was
// owed 2 again.
TEST(SchedulerProperty, OwedElasticJobTakesNoMoreThanItIsOwed) {
  Scenario s;
  s.kind = Scenario::kBorrowed;
  s.minutes = 400;
  s.workers = {{4}};
  s.queues = {{0, 1 << 30, 3}, {2, 1 << 30, 1}};
  s.jobs = {Planned(0, 0, 10, 3, 25), Planned(16, 1, 0, 9, 21, {9, 4, 2})};
  ExpectNoViolation(s);
}

// One was owed its slots, one could stop it within its queue, and a third took
// the room before that one: round and round.
TEST(SchedulerProperty, NobodyStopsAnOwedJobOfItsQueueToExceedTheGuarantee) {
  Scenario s;
  s.kind = Scenario::kMixed;
  s.minutes = 400;
  s.workers = {{4}, {2}};
  s.queues = {{0, 1 << 30, 1}, {2, 3, 3}};
  s.jobs = {Planned(54, 0, 20, 6, 28), Planned(54, 1, 0, 1, 110),
            Planned(54, 1, 20, 3, 1), Planned(116, 0, 0, 4, 10)};
  ExpectNoViolation(s);
}

// The slots that a head would leave over and those of a victim were the same.
TEST(SchedulerProperty, RoomBehindAGangIsNotCountedTwice) {
  Scenario s;
  s.kind = Scenario::kPriorities;
  s.minutes = 400;
  s.workers = {{7}, {8}, {6}};
  s.queues = {{0}, {0, 14}, {0}};
  s.jobs = {Planned(67, 1, 20, 3, 114), Planned(67, 2, 20, 19, 1),
            Planned(105, 2, 20, 5, 1), Planned(105, 0, 10, 3, 8),
            Planned(123, 2, 0, 3, 15, {3, 1})};
  ExpectNoViolation(s);
}

// The victim's stop changed the order of two waiting jobs, so that the room
// was kept for the other one, and the victim came back.
TEST(SchedulerProperty, RoomThatWasMadeIsNotKeptForAnother) {
  Scenario s;
  s.kind = Scenario::kBorrowed;
  s.minutes = 500;
  s.workers = {{4}, {4}};
  s.queues = {{0, 1 << 30, 3}, {0, 1 << 30, 3}};
  s.jobs = {Planned(0, 0, 10, 3, 50),  Planned(0, 0, 10, 2, 400, {2, 1}),
            Planned(0, 0, 10, 6, 1),   Planned(0, 0, 10, 1, 50),
            Planned(0, 0, 0, 1, 400),  Planned(0, 0, 0, 4, 100, {4, 2, 1}),
            Planned(0, 0, 10, 2, 400), Planned(16, 1, 0, 1, 8),
            Planned(16, 1, 10, 1, 10), Planned(16, 1, 10, 5, 1)};
  s.jobs[4].preemptible = false;
  ExpectNoViolation(s);
}

// An owed job had others stopped, and then left the room to a wide job of its
// queue, which a third one overtook.
TEST(SchedulerProperty, OwedJobTakesTheRoomThatWasMadeForIt) {
  Scenario s;
  s.kind = Scenario::kBorrowed;
  s.minutes = 900;
  s.workers = {{3}, {4}, {6}};
  s.queues = {{0}, {3}};
  s.jobs = {Planned(0, 0, 10, 13, 100), Planned(28, 1, 0, 1, 10),
            Planned(28, 1, 0, 3, 1), Planned(36, 1, 0, 8, 176, {8, 4, 2}),
            Planned(79, 1, 10, 4, 1)};
  ExpectNoViolation(s);
}

// A gang stopped all of a queue, whose smallest job was owed its slot again.
TEST(SchedulerProperty, NobodyStopsWhoWouldBeOwedSlotsAgain) {
  ExpectNoViolation(MakeScenario(Scenario::kMixed, 302024));
}

// The same within one queue: a wide job stopped all others of it.
TEST(SchedulerProperty, NobodyStopsWhoWouldBeOwedSlotsAgainInItsQueue) {
  Scenario s;
  s.kind = Scenario::kMixed;
  s.minutes = 200;
  s.workers = {{3}, {8}, {4}, {6}};
  s.queues = {{0}, {7, 26}};
  s.jobs = {Planned(11, 1, 0, 1, 17), Planned(11, 1, 10, 21, 1),
            Planned(24, 1, 0, 24, 30, {24, 12, 6})};
  ExpectNoViolation(s);
}

// A job was told to shrink for its queue's maximum and to grow in one decision.
TEST(SchedulerProperty, AJobThatShrinksDoesNotGrow) {
  Scenario s;
  s.kind = Scenario::kMixed;
  s.minutes = 300;
  s.workers = {{6}, {4}, {3}, {5}, {6}};
  s.queues = {{0}, {0, 12}};
  s.jobs = {Planned(0, 0, 0, 2, 140), Planned(54, 1, 0, 4, 53, {4, 2, 1}),
            Planned(54, 1, 0, 8, 1), Planned(54, 0, 0, 14, 27),
            Planned(72, 1, 0, 6, 7, {6, 3, 1})};
  ExpectNoViolation(s);
}

// Due parts were rounded up, and the last queue got nothing.
TEST(SchedulerProperty, SmallSharesAreNotRoundedUp) {
  ExpectNoViolation(MakeScenario(Scenario::kBacklog, 2));
}

// Small jobs within the guarantee of its own queue kept a wide one waiting.
TEST(SchedulerProperty, TheGuaranteeDoesNotCountAgainstAWideJobOfItsQueue) {
  ExpectNoViolation(MakeScenario(Scenario::kWide, 200325));
}

// What could preempt each other is there for good: it comes to rest.
TEST(SchedulerProperty, Complaint08_PreemptionComesToRest) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    ExpectNoViolation(MakeScenario(Scenario::kForever, seed));
  }
}

TEST(SchedulerProperty, EveryRuleHoldsForEveryHistory) {
  Played sum;
  for (int64_t i = 0; i < cases; ++i) {
    const int64_t seed = first_seed + i;
    const Scenario scenario = MakeScenario(KindOf(i), seed);
    const Played played = ClusterPlayer(scenario, Scheduler::Decide).Play();
    sum.passes += played.passes;
    sum.finished += played.finished;
    sum.preemptions += played.preemptions;
    sum.resizes += played.resizes;
    if (!played.violation) continue;
    const Scenario small =
        Shrink(scenario, Scheduler::Decide, played.violation->rule,
               scenario.jobs.size() > 100 ? 50 : 2000);
    const Played again = ClusterPlayer(small, Scheduler::Decide).Play();
    FAIL() << "seed " << seed << ": " << played.violation->rule << "\n"
           << "minute " << again.violation->minute << ": "
           << again.violation->what << "\n"
           << small.Text();
  }
  std::cout << cases << " scenarios, " << sum.passes << " passes, "
            << sum.finished << " jobs ended, " << sum.preemptions
            << " preemptions, " << sum.resizes << " resizes\n";
  EXPECT_GT(sum.finished, 0);
  if (only_kind >= 0) return;
  EXPECT_GT(sum.preemptions, 0);
  EXPECT_GT(sum.resizes, 0);
}

}  // namespace

bool ReadFlag(const std::string& argument, const std::string& name,
              int64_t* value) {
  absl::string_view text = argument;
  return absl::ConsumePrefix(&text, absl::StrCat("--", name, "=")) &&
         absl::SimpleAtoi(text, value);
}

}  // namespace comera::server

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (!comera::server::ReadFlag(argv[i], "cases", &comera::server::cases) &&
        !comera::server::ReadFlag(argv[i], "seed",
                                  &comera::server::first_seed) &&
        !comera::server::ReadFlag(argv[i], "kind",
                                  &comera::server::only_kind)) {
      std::cerr << "unknown argument " << argv[i] << "\n";
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
