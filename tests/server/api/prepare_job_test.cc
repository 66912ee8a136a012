// Tests that requests for jobs are checked and completed once.
#include "server/api/prepare_job.h"

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "proto/job_defaults.h"
#include "tests/server/test_spec.h"

namespace comera::server {
namespace {

using testing::HasSubstr;

v1::CreateJobRequest Request() {
  v1::CreateJobRequest request;
  *request.mutable_spec() = TestSpec(2);
  request.set_request_id("r1");
  return request;
}

TEST(PrepareJob, FillsInDefaultsAndKeepsWhoAsked) {
  const v1::CreateJobRequest request = Request();
  ASSERT_OK_AND_ASSIGN(const PreparedJob job,
                       PrepareJob(request, {"ada", "sweeps/s"}));
  EXPECT_EQ(job.spec().SerializeAsString(),
            WithDefaults(request.spec()).SerializeAsString());
  EXPECT_EQ(job.spec().queue(), "default");
  EXPECT_EQ(job.request_id(), "r1");
  EXPECT_EQ(job.submitter().user, "ada");
  EXPECT_EQ(job.submitter().sweep, "sweeps/s");
  EXPECT_TRUE(job.datasets().empty());
}

TEST(PrepareJob, NamesEveryBadField) {
  v1::CreateJobRequest request = Request();
  request.mutable_spec()->mutable_model()->set_layers(-1);
  request.mutable_spec()->mutable_training()->set_batch_size(-1);
  const auto job = PrepareJob(request, {});
  EXPECT_THAT(job, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(job.status().message(), HasSubstr("model.layers"));
  EXPECT_THAT(job.status().message(), HasSubstr("training.batch_size"));
}

// The attack: jobs with megabytes of paths, kept for weeks after they ended.
TEST(PrepareJob, RefusesSpecificationsThatAreLargeToKeep) {
  v1::CreateJobRequest request = Request();
  request.mutable_spec()->set_display_name(std::string(65 << 10, 'x'));
  EXPECT_THAT(PrepareJob(request, {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("of at most 65536")));
}

TEST(PrepareJob, RefusesRequestsWithoutSpecAndUnprintableIds) {
  EXPECT_THAT(PrepareJob(v1::CreateJobRequest(), {}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  v1::CreateJobRequest request = Request();
  request.set_request_id("a b");
  EXPECT_THAT(PrepareJob(request, {}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace comera::server
