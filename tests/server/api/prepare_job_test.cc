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

// What is stored is the specification with its defaults.
TEST(PrepareJob, DefaultsCountAsWell) {
  v1::CreateJobRequest request = Request();
  const auto fill = [&](size_t bytes) {
    auto& roots = *request.mutable_spec()
                       ->mutable_data()
                       ->mutable_code_directory()
                       ->mutable_roots();
    roots.Clear();
    while (request.spec().ByteSizeLong() + 4100 < bytes) {
      roots.Add("/" + std::string(4000, 'x'));
    }
    const size_t left = bytes - request.spec().ByteSizeLong();
    roots.Add("/" + std::string(left - 5, 'y'));
  };
  fill(60000);
  ASSERT_OK(PrepareJob(request, {}));
  // Just within the limit as it comes in, and beyond it as it would be kept.
  fill(65500);
  ASSERT_LE(request.spec().ByteSizeLong(), 65536u);
  ASSERT_GT(WithDefaults(request.spec()).ByteSizeLong(), 65536u);
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
