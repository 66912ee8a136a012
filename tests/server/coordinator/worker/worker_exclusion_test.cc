// Tests which failures take a worker out of service.
#include "server/coordinator/worker/worker_exclusion.h"

#include "gtest/gtest.h"
#include "tests/server/coordinator/coordinator_parts.h"

namespace comera::server {
namespace {

class WorkerExclusionTest : public ::testing::Test {
 protected:
  void Fail(const std::string& job, v1::FailureClass failure_class) {
    v1::Failure failure;
    failure.set_failure_class(failure_class);
    Operation op(parts_.now, &parts_.effects);
    parts_.exclusion.Count(job, "w0", failure, &op);
  }
  bool Excluded() { return parts_.workers.Find("w0")->policy().excluded(); }
  void AddWorkers(int count) {
    for (int i = 0; i < count; ++i) parts_.AddWorker("w" + std::to_string(i));
  }

  CoordinatorParts parts_;
};

TEST_F(WorkerExclusionTest, ThreeJobsThatLoseMembersAreEnough) {
  AddWorkers(4);
  Fail("jobs/a", v1::RANK_LOST);
  Fail("jobs/a", v1::RANK_LOST);  // It may be the job's fault.
  Fail("jobs/b", v1::RANK_LOST);
  Fail("jobs/c", v1::OUT_OF_MEMORY);
  EXPECT_FALSE(Excluded());
  Fail("jobs/c", v1::RANK_LOST);
  EXPECT_TRUE(Excluded());
}

TEST_F(WorkerExclusionTest, ALossOfTheWorkerCountsOnceForAllItsJobs) {
  AddWorkers(4);
  for (const char* job : {"jobs/a", "jobs/b", "jobs/c"}) {
    Fail(job, v1::NODE_LOST);
  }
  EXPECT_FALSE(Excluded());
}

TEST_F(WorkerExclusionTest, FewWorkersAreAllKept) {
  AddWorkers(3);
  for (const char* job : {"jobs/a", "jobs/b", "jobs/c", "jobs/d"}) {
    Fail(job, v1::RANK_LOST);
  }
  EXPECT_FALSE(Excluded());
}

}  // namespace
}  // namespace comera::server
