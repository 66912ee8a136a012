// Tests that every rule of ClusterPlayer can be broken: schedulers with one
// deliberate defect each are found out.
#include <functional>
#include <string>

#include "gtest/gtest.h"
#include "server/scheduler/scheduler.h"
#include "tests/server/scheduler/cluster_player.h"
#include "tests/server/scheduler/scenario.h"
#include "tests/server/scheduler/scenario_shrinker.h"

namespace comera::server {
namespace {

struct Defect {
  std::string rule;
  Scenario::Kind kind;
  // Spoils what the scheduler sees, or what it decides.
  std::function<void(ClusterSnapshot&)> blind = [](ClusterSnapshot&) {};
  std::function<void(const ClusterSnapshot&, Decision&)> spoil =
      [](const ClusterSnapshot&, Decision&) {};
  int cases = 60;
};

Decider Spoiled(const Defect& defect) {
  return [defect](const ClusterSnapshot& snapshot) {
    ClusterSnapshot seen = snapshot;
    defect.blind(seen);
    Decision decision = Scheduler::Decide(seen);
    defect.spoil(snapshot, decision);
    return decision;
  };
}

// Whether some scenario breaks this rule first.
bool IsFoundOut(const Defect& defect) {
  for (int seed = 1; seed <= defect.cases; ++seed) {
    const Scenario scenario = MakeScenario(defect.kind, seed);
    const Played played = ClusterPlayer(scenario, Spoiled(defect)).Play();
    if (played.violation && played.violation->rule == defect.rule) return true;
  }
  return false;
}

Defect Make(const std::string& rule, Scenario::Kind kind) {
  Defect defect;
  defect.rule = rule;
  defect.kind = kind;
  return defect;
}

void NoStops(const ClusterSnapshot&, Decision& decision) {
  decision.stops.clear();
}

TEST(RulesCanFail, PartialGang) {
  Defect defect = Make("a gang is placed whole", Scenario::kMixed);
  defect.spoil = [](const ClusterSnapshot&, Decision& decision) {
    for (Placement& placement : decision.placements) {
      if (placement.members.size() > 1) placement.members.pop_back();
    }
  };
  EXPECT_TRUE(IsFoundOut(defect));
}

TEST(RulesCanFail, SlotUsedTwice) {
  Defect defect = Make("a slot is used once", Scenario::kMixed);
  defect.spoil = [](const ClusterSnapshot&, Decision& decision) {
    for (Placement& placement : decision.placements) {
      placement.members.back() = placement.members.front();
    }
  };
  EXPECT_TRUE(IsFoundOut(defect));
}

TEST(RulesCanFail, UnfitSlot) {
  Defect defect = Make("unfit slots are not used", Scenario::kMixed);
  defect.blind = [](ClusterSnapshot& seen) {
    for (WorkerSlots& room : seen.workers) {
      if (room.unfit_cpu > 0 && room.free_cpu.empty()) {
        room.free_cpu.push_back(room.total_cpu - 1);
      }
    }
  };
  EXPECT_TRUE(IsFoundOut(defect));
}

TEST(RulesCanFail, QueueMaximum) {
  Defect defect = Make("a queue keeps its maximum", Scenario::kMixed);
  defect.blind = [](ClusterSnapshot& seen) {
    for (QueueShare& queue : seen.queues) queue.limit = 1 << 30;
  };
  EXPECT_TRUE(IsFoundOut(defect));
}

TEST(RulesCanFail, ForgottenJob) {
  Defect defect = Make("a job is decided once", Scenario::kMixed);
  defect.spoil = [](const ClusterSnapshot&, Decision& decision) {
    if (!decision.waiting.empty()) decision.waiting.pop_back();
  };
  EXPECT_TRUE(IsFoundOut(defect));
}

TEST(RulesCanFail, StoppedTwice) {
  Defect defect = Make("a job is stopped once", Scenario::kPriorities);
  defect.spoil = [](const ClusterSnapshot&, Decision& decision) {
    if (!decision.stops.empty()) decision.stops.push_back(decision.stops[0]);
  };
  EXPECT_TRUE(IsFoundOut(defect));
}

TEST(RulesCanFail, StoppedTooEarly) {
  Defect defect =
      Make("no job is stopped in its first minutes", Scenario::kPriorities);
  defect.blind = [](ClusterSnapshot& seen) {
    seen.options.min_run_time = absl::ZeroDuration();
  };
  EXPECT_TRUE(IsFoundOut(defect));
}

TEST(RulesCanFail, UnwillingVictim) {
  Defect defect = Make("a job may refuse preemption", Scenario::kPriorities);
  defect.blind = [](ClusterSnapshot& seen) {
    for (RunningJob& job : seen.running) job.preemptible = true;
  };
  EXPECT_TRUE(IsFoundOut(defect));
}

TEST(RulesCanFail, VictimOfTheSamePriority) {
  Defect defect =
      Make("only lower jobs and borrowers are stopped", Scenario::kPriorities);
  defect.blind = [](ClusterSnapshot& seen) {
    for (RunningJob& job : seen.running) --job.priority;
  };
  EXPECT_TRUE(IsFoundOut(defect));
}

TEST(RulesCanFail, NeedlessStop) {
  Defect defect =
      Make("nobody is stopped for slots that come free", Scenario::kPriorities);
  defect.blind = [](ClusterSnapshot& seen) {
    for (RunningJob& job : seen.running) {
      job.expected_end = absl::InfiniteFuture();
    }
  };
  Scenario s;
  s.kind = defect.kind;
  s.minutes = 60;
  s.workers = {{2}};
  s.queues = {{0}};
  s.jobs.resize(2);
  s.jobs[0].processes = s.jobs[1].processes = 2;
  s.jobs[0].length = 12;
  s.jobs[0].word = PlannedJob::kEstimate;
  s.jobs[1].minute = 11;
  s.jobs[1].priority = 20;
  EXPECT_FALSE(ClusterPlayer(s, Scheduler::Decide).Play().violation);
  const Played played = ClusterPlayer(s, Spoiled(defect)).Play();
  ASSERT_TRUE(played.violation);
  EXPECT_EQ(played.violation->rule, defect.rule);
}

TEST(RulesCanFail, PriorityUpsideDown) {
  Defect defect = Make("priority goes first", Scenario::kPriorities);
  defect.blind = [](ClusterSnapshot& seen) {
    for (PendingJob& job : seen.jobs) job.priority = -job.priority;
  };
  EXPECT_TRUE(IsFoundOut(defect));
}

TEST(RulesCanFail, LastComeFirstServed) {
  Defect defect = Make("equal jobs start in order", Scenario::kWide);
  defect.blind = [](ClusterSnapshot& seen) {
    for (PendingJob& job : seen.jobs) job.serial = -job.serial;
  };
  defect.cases = 5;
  EXPECT_TRUE(IsFoundOut(defect));
}

TEST(RulesCanFail, IdleRoom) {
  Defect defect =
      Make("room does not idle in front of the first job", Scenario::kMixed);
  defect.spoil = [](const ClusterSnapshot& snapshot, Decision& decision) {
    decision = Decision();
    for (size_t i = 0; i < snapshot.jobs.size(); ++i) {
      WaitReason reason;
      reason.kind = WaitReason::kNoRoom;
      decision.waiting.push_back({static_cast<int32_t>(i), reason});
    }
  };
  EXPECT_TRUE(IsFoundOut(defect));
}

// The order changes with every pass, so that jobs chase one another.
TEST(RulesCanFail, EndlessPreemption) {
  for (const char* rule : {"nobody takes back what was taken",
                           "a job is preempted a few times an hour at most"}) {
    Defect defect = Make(rule, Scenario::kPriorities);
    defect.blind = [](ClusterSnapshot& seen) {
      for (RunningJob& job : seen.running) job.priority = -1;
    };
    defect.spoil = [](const ClusterSnapshot& snapshot, Decision& decision) {
      // The rule on whom they may stop is not the one that is tried here.
      for (const StopOrder& order : decision.stops) {
        const_cast<RunningJob&>(snapshot.running[order.running]).priority = -1;
      }
    };
    EXPECT_TRUE(IsFoundOut(defect)) << rule;
  }
}

TEST(RulesCanFail, PreemptionThatDoesNotRest) {
  Defect defect = Make("preemption comes to rest", Scenario::kForever);
  defect.spoil = [](const ClusterSnapshot& snapshot, Decision& decision) {
    for (size_t i = 0; i < snapshot.running.size(); ++i) {
      const RunningJob& job = snapshot.running[i];
      if (!job.stopping && snapshot.now - job.started >= absl::Minutes(100)) {
        decision.stops.push_back(
            {StopOrder::kGrow, static_cast<int32_t>(i), job.processes, -1});
        return;
      }
    }
  };
  EXPECT_TRUE(IsFoundOut(defect));
}

// What is stopped for a job does not reach it.
TEST(RulesCanFail, WastedRoom) {
  Defect defect = Make("room that was made is used", Scenario::kPriorities);
  defect.blind = [](ClusterSnapshot& seen) {
    for (PendingJob& job : seen.jobs) job.granted = 0;
    if (seen.running.empty()) return;
    for (WorkerSlots& room : seen.workers) room.free_cpu.clear();
  };
  Scenario s;
  s.kind = defect.kind;
  s.minutes = 200;
  s.workers = {{20}};
  s.queues = {{0}};
  s.jobs.resize(11);
  for (PlannedJob& job : s.jobs) {
    job.processes = 2;
    job.length = 500;
  }
  s.jobs[10].minute = 70;
  s.jobs[10].priority = 20;
  s.jobs[10].length = 10;
  const Played played = ClusterPlayer(s, Spoiled(defect)).Play();
  ASSERT_TRUE(played.violation);
  EXPECT_EQ(played.violation->rule, defect.rule);
}

TEST(RulesCanFail, NoGrowth) {
  Defect defect = Make("elastic jobs grow", Scenario::kMixed);
  defect.spoil = NoStops;
  EXPECT_TRUE(IsFoundOut(defect));
}

TEST(RulesCanFail, GuaranteeThatIsNotTakenBack) {
  Defect defect = Make("a queue gets its guarantee", Scenario::kBorrowed);
  defect.spoil = NoStops;
  EXPECT_TRUE(IsFoundOut(defect));
}

TEST(RulesCanFail, GangThatStopsLowerOnesFromPreempting) {
  Defect defect =
      Make("a job that cannot start stops nobody else", Scenario::kPriorities);
  defect.blind = [](ClusterSnapshot& seen) {
    seen.options.hold_limit = absl::InfiniteDuration();
  };
  defect.cases = 600;
  EXPECT_TRUE(IsFoundOut(defect));
}

TEST(RulesCanFail, StarvationOfTheWide) {
  Defect defect = Make("nobody starves", Scenario::kWide);
  defect.blind = [](ClusterSnapshot& seen) {
    // No reservation: whatever is small looks as if it ended at once.
    for (PendingJob& job : seen.jobs) {
      if (job.processes == 1) job.duration = absl::ZeroDuration();
    }
  };
  defect.cases = 5;
  EXPECT_TRUE(IsFoundOut(defect));
}

TEST(RulesCanFail, WeightsForgotten) {
  Defect defect = Make("weights hold", Scenario::kBacklog);
  defect.blind = [](ClusterSnapshot& seen) {
    for (QueueShare& queue : seen.queues) queue.weight = 1;
  };
  defect.cases = 5;
  EXPECT_TRUE(IsFoundOut(defect));
}

TEST(Shrinker, KeepsTheRuleBrokenWithLess) {
  Defect defect = Make("a gang is placed whole", Scenario::kMixed);
  defect.spoil = [](const ClusterSnapshot&, Decision& decision) {
    for (Placement& placement : decision.placements) {
      if (placement.members.size() > 2) placement.members.pop_back();
    }
  };
  const Decider decide = Spoiled(defect);
  for (int seed = 1; seed <= 10; ++seed) {
    const Scenario scenario = MakeScenario(defect.kind, seed);
    if (!ClusterPlayer(scenario, decide).Play().violation) continue;
    const Scenario small = Shrink(scenario, decide, defect.rule);
    EXPECT_EQ(small.jobs.size(), 1u);
    EXPECT_EQ(small.jobs[0].processes, 3);
    EXPECT_EQ(small.slots(), 3);
    return;
  }
  FAIL() << "nothing to shrink";
}

}  // namespace
}  // namespace comera::server
