// Checks which jobs count as forgotten, also after a restart.
#include "server/coordinator/job/forgotten_jobs.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::server {
namespace {

using ::testing::SizeIs;

TEST(ForgottenJobsTest, TheEarliestAreDroppedAlsoAfterARestart) {
  ForgottenJobs jobs(/*most=*/3);
  std::vector<Document> documents;
  for (const char* job : {"jobs/c", "jobs/b", "jobs/a", "jobs/a"}) {
    jobs.Add(job, &documents);
  }
  EXPECT_THAT(documents, SizeIs(3));
  EXPECT_TRUE(jobs.Contains("jobs/c"));
  EXPECT_FALSE(jobs.Contains("jobs/d"));
  ForgottenJobs later(/*most=*/3);
  later.Load(documents);
  documents.clear();
  later.Add("jobs/d", &documents);
  EXPECT_FALSE(later.Contains("jobs/c"));
  for (const char* job : {"jobs/b", "jobs/a", "jobs/d"}) {
    EXPECT_TRUE(later.Contains(job)) << job;
  }
  ASSERT_THAT(documents, SizeIs(2));
  EXPECT_EQ(documents[0].name, "jobs/d");
  EXPECT_EQ(documents[1].name, "jobs/c");
  EXPECT_FALSE(documents[1].body.has_value());
}

TEST(ForgottenJobsTest, DamagedDocumentsCountForNothing) {
  ForgottenJobs jobs;
  jobs.Load({{ForgottenJobs::kDocumentKind, "jobs/a", "x"},
             {ForgottenJobs::kDocumentKind, "jobs/b", "-7"},
             {ForgottenJobs::kDocumentKind, "jobs/c", "9"},
             {ForgottenJobs::kDocumentKind, "jobs/d", "9"}});
  EXPECT_FALSE(jobs.Contains("jobs/a"));
  EXPECT_FALSE(jobs.Contains("jobs/b"));
  EXPECT_TRUE(jobs.Contains("jobs/c"));
  EXPECT_FALSE(jobs.Contains("jobs/d"));
  std::vector<Document> documents;
  jobs.Add("jobs/e", &documents);
  EXPECT_EQ(documents[0].body, "10");
}

}  // namespace
}  // namespace comera::server
