#include "server/scheduler.h"

#include <map>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;

WorkerRoom Cpu(const std::string& worker, std::vector<int32_t> free,
               int32_t total) {
  WorkerRoom room;
  room.worker = worker;
  room.free_cpu = std::move(free);
  room.total_cpu = total;
  return room;
}

PendingJob Job(const std::string& name, int32_t ranks, int64_t serial,
               int32_t priority = 0) {
  PendingJob job;
  job.job = name;
  job.ranks = ranks;
  job.serial = serial;
  job.priority = priority;
  return job;
}

std::vector<std::string> Placed(const Decision& decision) {
  std::vector<std::string> names;
  for (const Placement& placement : decision.placements) {
    names.push_back(placement.job);
  }
  return names;
}

std::vector<std::string> Workers(const Placement& placement) {
  std::vector<std::string> names;
  for (const RankPlace& place : placement.ranks) names.push_back(place.worker);
  return names;
}

TEST(Scheduler, PriorityThenOrderOfAcceptance) {
  ClusterSnapshot snapshot;
  snapshot.workers = {Cpu("w", {0, 1, 2}, 3)};
  snapshot.jobs = {Job("late", 1, 3), Job("early", 1, 1), Job("high", 1, 9, 5)};
  EXPECT_THAT(Placed(Scheduler::Decide(snapshot)),
              ElementsAre("high", "early", "late"));
}

TEST(Scheduler, BlockedGangIsNotStarvedBySmallerJobs) {
  ClusterSnapshot snapshot;
  snapshot.workers = {Cpu("w", {0}, 2)};
  snapshot.jobs = {Job("gang", 2, 1), Job("small", 1, 2)};
  const Decision decision = Scheduler::Decide(snapshot);
  EXPECT_THAT(Placed(decision), ElementsAre());
  EXPECT_EQ(decision.waiting[0].reason, "waiting for 2 free CPU slots, 1 free");
  EXPECT_EQ(decision.waiting[1].reason, "waiting for earlier jobs");
}

TEST(Scheduler, JobLargerThanTheClusterHoldsNobodyBack) {
  ClusterSnapshot snapshot;
  snapshot.workers = {Cpu("w", {0, 1}, 2)};
  snapshot.jobs = {Job("huge", 3, 1), Job("small", 1, 2)};
  const Decision decision = Scheduler::Decide(snapshot);
  EXPECT_THAT(Placed(decision), ElementsAre("small"));
  EXPECT_EQ(decision.waiting[0].reason,
            "waiting for 3 CPU slots, the cluster has 2");
}

TEST(Scheduler, FewestWorkersAndTightestFit) {
  ClusterSnapshot snapshot;
  snapshot.workers = {Cpu("big", {0, 1, 2, 3}, 4), Cpu("fit", {0, 1}, 2),
                      Cpu("one", {0}, 1)};
  snapshot.jobs = {Job("two", 2, 1)};
  Decision decision = Scheduler::Decide(snapshot);
  EXPECT_THAT(Workers(decision.placements[0]), ElementsAre("fit", "fit"));
  snapshot.jobs = {Job("five", 5, 1)};
  decision = Scheduler::Decide(snapshot);
  EXPECT_THAT(Workers(decision.placements[0]),
              ElementsAre("big", "big", "big", "big", "one"));
}

TEST(Scheduler, ReturnsToTheWorkersOfTheLastAttempt) {
  ClusterSnapshot snapshot;
  snapshot.workers = {Cpu("a", {0, 1}, 2), Cpu("b", {0, 1}, 2),
                      Cpu("c", {0, 1}, 2)};
  PendingJob job = Job("again", 2, 1);
  job.last_workers = {"b"};
  snapshot.jobs = {job};
  EXPECT_THAT(Workers(Scheduler::Decide(snapshot).placements[0]),
              ElementsAre("b", "b"));
  // Rank 0 returns to where rank 0 was.
  job.ranks = 4;
  job.last_workers = {"c", "a"};
  snapshot.jobs = {job};
  EXPECT_THAT(Workers(Scheduler::Decide(snapshot).placements[0]),
              ElementsAre("c", "c", "a", "a"));
}

TEST(Scheduler, AnyDeviceMeansGpuWhereTheClusterHasOne) {
  ClusterSnapshot snapshot;
  WorkerRoom room = Cpu("w", {0, 1}, 2);
  snapshot.workers = {room};
  snapshot.jobs = {Job("any", 1, 1)};
  EXPECT_THAT(Placed(Scheduler::Decide(snapshot)), ElementsAre("any"));
  room.total_gpu = 1;
  snapshot.workers = {room};
  const Decision decision = Scheduler::Decide(snapshot);
  EXPECT_THAT(Placed(decision), ElementsAre());
  EXPECT_EQ(decision.waiting[0].reason, "waiting for 1 free GPU slot, 0 free");
}

TEST(Scheduler, UnfitSlotsTakeNoJobButCountAsTheCluster) {
  ClusterSnapshot snapshot;
  WorkerRoom room = Cpu("w", {0, 1}, 2);
  room.free_gpu = {3};
  room.total_gpu = 3;
  room.unfit_gpu = 1;
  snapshot.workers = {room};
  PendingJob gang = Job("gang", 2, 1);
  gang.device = v1::ResourceSpec::GPU;
  PendingJob small = Job("small", 1, 2);
  small.device = v1::ResourceSpec::GPU;
  PendingJob any = Job("any", 1, 3);
  snapshot.jobs = {gang, small, any};
  const Decision decision = Scheduler::Decide(snapshot);
  EXPECT_THAT(Placed(decision), ElementsAre());
  EXPECT_EQ(decision.waiting[0].reason,
            "waiting for 2 free GPU slots, 1 free, 1 unfit");
  // The gang fits once the GPU is fit again: nobody overtakes it.
  EXPECT_EQ(decision.waiting[1].reason, "waiting for earlier jobs");
  EXPECT_EQ(decision.waiting[2].reason, "waiting for earlier jobs");
}

// What must hold for every snapshot: whole gangs on distinct, really free
// slots of the right device, every job decided once, and no waiting job ahead
// of a placed one that it would have fitted before.
TEST(Scheduler, RandomSnapshotsKeepTheRules) {
  const uint32_t seed = 20240607;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  auto below = [&](int n) { return static_cast<int>(random() % n); };
  for (int round = 0; round < 2000; ++round) {
    SCOPED_TRACE(round);
    ClusterSnapshot snapshot;
    std::set<std::pair<std::string, int32_t>> free_cpu, free_gpu;
    const int workers = below(6);
    for (int w = 0; w < workers; ++w) {
      WorkerRoom room;
      room.worker = "w" + std::to_string(w);
      const int slots = below(6);
      for (int slot = 0; slot < slots; ++slot) {
        const bool gpu = below(3) == 0;
        ++(gpu ? room.total_gpu : room.total_cpu);
        if (below(3) == 0) continue;
        (gpu ? room.free_gpu : room.free_cpu).push_back(slot);
        (gpu ? free_gpu : free_cpu).insert({room.worker, slot});
      }
      snapshot.workers.push_back(room);
    }
    std::map<std::string, PendingJob> jobs;
    const int count = below(8);
    for (int j = 0; j < count; ++j) {
      PendingJob job = Job("j" + std::to_string(j), 1 + below(6), j, below(3));
      job.device = static_cast<v1::ResourceSpec::Device>(below(3));
      while (below(2) == 0) {
        job.last_workers.push_back("w" + std::to_string(below(7)));
      }
      snapshot.jobs.push_back(job);
      jobs[job.job] = job;
    }
    const Decision decision = Scheduler::Decide(snapshot);
    EXPECT_EQ(decision.placements.size() + decision.waiting.size(),
              jobs.size());
    std::set<std::string> decided;
    for (const Placement& placement : decision.placements) {
      const PendingJob& job = jobs.at(placement.job);
      EXPECT_TRUE(decided.insert(placement.job).second);
      ASSERT_EQ(placement.ranks.size(), static_cast<size_t>(job.ranks));
      for (const RankPlace& place : placement.ranks) {
        const std::pair<std::string, int32_t> slot(place.worker, place.slot);
        // Erasing proves that it was free and is used once.
        const size_t cpu = free_cpu.erase(slot), gpu = free_gpu.erase(slot);
        EXPECT_EQ(cpu + gpu, 1u);
        if (job.device == v1::ResourceSpec::CPU) {
          EXPECT_EQ(cpu, 1u);
        }
        if (job.device == v1::ResourceSpec::GPU) {
          EXPECT_EQ(gpu, 1u);
        }
      }
    }
    for (const WaitingJob& waiting : decision.waiting) {
      EXPECT_TRUE(decided.insert(waiting.job).second);
      const PendingJob& waits = jobs.at(waiting.job);
      EXPECT_FALSE(waiting.reason.empty());
      // The first waiting job of a device cannot have been left room for.
      if (waiting.reason.find("free") != std::string::npos &&
          waits.device != v1::ResourceSpec::ANY) {
        const auto& left =
            waits.device == v1::ResourceSpec::GPU ? free_gpu : free_cpu;
        EXPECT_LT(left.size(), static_cast<size_t>(waits.ranks));
      }
    }
  }
}

}  // namespace
}  // namespace comera::server
