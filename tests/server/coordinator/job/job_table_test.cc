// Tests how jobs are found: by name, by request, by attempt and by state.
#include "server/coordinator/job/job_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsNull;

JobRecord Queued(const std::string& name, int64_t serial, int32_t priority) {
  JobRecord record;
  record.set_serial(serial);
  record.mutable_job()->set_name(name);
  record.mutable_job()->set_request_id("request of " + name);
  record.mutable_job()->set_state(v1::QUEUED);
  record.mutable_job()->mutable_spec()->set_priority(priority);
  return record;
}

TEST(JobTableTest, QueuedJobsAreInServingOrder) {
  JobTable jobs;
  JobEntry* late = jobs.Add(Queued("jobs/a", 3, 0));
  JobEntry* early = jobs.Add(Queued("jobs/b", 2, 0));
  JobEntry* urgent = jobs.Add(Queued("jobs/c", 4, 1));
  EXPECT_THAT(jobs.index().Queued(), ElementsAre(urgent, early, late));
  EXPECT_EQ(jobs.last_serial(), 4);
}

TEST(JobTableTest, FindsARequestUntilItsJobIsRemoved) {
  JobTable jobs;
  JobRecord record = Queued("jobs/a", 1, 0);
  record.mutable_job()->set_state(v1::SUCCEEDED);
  JobEntry* entry = jobs.Add(std::move(record));
  EXPECT_EQ(jobs.FindRequest("request of jobs/a"), entry);
  jobs.Remove("jobs/a");
  EXPECT_THAT(jobs.FindRequest("request of jobs/a"), IsNull());
  EXPECT_THAT(jobs.Find("jobs/a"), IsNull());
}

TEST(JobTableTest, FindsTheJobOfAnAliasUntilItIsRemoved) {
  JobTable jobs;
  JobRecord record = Queued("jobs/a", 1, 0);
  record.mutable_job()->set_state(v1::SUCCEEDED);
  record.mutable_job()->add_models()->add_aliases("models/m@stored");
  JobEntry* const a = jobs.Add(std::move(record));
  JobEntry* const b = jobs.Add(Queued("jobs/b", 2, 0));
  EXPECT_EQ(jobs.FindAlias("models/m@stored"), a);
  EXPECT_THAT(jobs.FindAlias("models/m@new"), IsNull());
  jobs.NoteAlias("models/m@new", b);
  EXPECT_EQ(jobs.FindAlias("models/m@new"), b);
  jobs.NoteAlias("models/m@new", nullptr);
  EXPECT_THAT(jobs.FindAlias("models/m@new"), IsNull());
  jobs.Remove("jobs/a");
  EXPECT_THAT(jobs.FindAlias("models/m@stored"), IsNull());
}

TEST(JobTableTest, FindsOnlyTheCurrentAttemptOfAnActiveJob) {
  JobTable jobs;
  JobRecord record = Queued("jobs/a", 1, 0);
  record.mutable_job()->set_attempt(2);
  JobEntry* entry = jobs.Add(std::move(record));
  EXPECT_THAT(jobs.FindAttempt("jobs/a", 2), IsNull());
  Effects effects;
  Operation op(absl::UnixEpoch(), &effects);
  entry->SetState(v1::RUNNING, "", &op);
  EXPECT_EQ(jobs.FindAttempt("jobs/a", 2), entry);
  EXPECT_THAT(jobs.FindAttempt("jobs/a", 1), IsNull());
}

}  // namespace
}  // namespace comera::server
