// Tests the limits of users' calls with a clock set by hand.
#include "server/auth/rate_limit.h"

#include "common/status_matchers.h"
#include "gtest/gtest.h"

namespace comera::server {
namespace {

class StillClock : public Clock {
 public:
  absl::Time Now() override { return now; }
  absl::Time now = absl::FromUnixSeconds(1800000000);
};

TEST(TokenBucket, GivesTheBurstThenTheRate) {
  TokenBucket bucket(10, 3);
  absl::Time now = absl::FromUnixSeconds(1000);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(bucket.Take(now), absl::ZeroDuration());
  }
  const absl::Duration wait = bucket.Take(now);
  EXPECT_NEAR(absl::ToDoubleSeconds(wait), 0.1, 1e-6);
  EXPECT_GT(bucket.Take(now + wait / 2), absl::ZeroDuration());
  EXPECT_EQ(bucket.Take(now + wait + absl::Milliseconds(1)),
            absl::ZeroDuration());
  // A long pause gives no more than the burst.
  now += absl::Hours(1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(bucket.Take(now), absl::ZeroDuration());
  }
  EXPECT_GT(bucket.Take(now), absl::ZeroDuration());
  // Nor does a clock that goes back and forth.
  EXPECT_GT(bucket.Take(now - absl::Hours(2)), absl::ZeroDuration());
  EXPECT_EQ(bucket.Take(now - absl::Hours(1)), absl::ZeroDuration());
}

TEST(UserLimits, CountEachUserAlone) {
  StillClock clock;
  UserLimits::Options options;
  options.requests_per_second = 1;
  options.request_burst = 2;
  options.submissions_per_second = 1;
  options.submission_burst = 1;
  options.max_streams = 2;
  UserLimits limits(options, &clock);
  EXPECT_OK(limits.ChargeRequest("alice"));
  EXPECT_OK(limits.ChargeRequest("alice"));
  EXPECT_THAT(limits.ChargeRequest("alice"),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_OK(limits.ChargeRequest("bob"));
  EXPECT_OK(limits.ChargeSubmission("alice"));
  EXPECT_THAT(limits.ChargeSubmission("alice"),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_OK(limits.OpenStream("alice"));
  EXPECT_OK(limits.OpenStream("alice"));
  EXPECT_THAT(limits.OpenStream("alice"),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_OK(limits.OpenStream("bob"));
  limits.CloseStream("alice");
  EXPECT_OK(limits.OpenStream("alice"));
  clock.now += absl::Seconds(1);
  EXPECT_OK(limits.ChargeRequest("alice"));
}

TEST(UserLimits, UploadsHaveTheirOwnLimit) {
  StillClock clock;
  UserLimits::Options options;
  options.max_uploads = 1;
  UserLimits limits(options, &clock);
  EXPECT_OK(limits.OpenUpload("alice"));
  EXPECT_OK(limits.OpenStream("alice"));
  EXPECT_THAT(limits.OpenUpload("alice"),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_OK(limits.OpenUpload("bob"));
  EXPECT_EQ(limits.refusals().uploads, 1);
  EXPECT_EQ(limits.refusals().streams, 0);
  limits.CloseUpload("alice");
  EXPECT_OK(limits.OpenUpload("alice"));
}

TEST(UserLimits, DownloadsOfUsersAndWorkersHaveLimits) {
  StillClock clock;
  UserLimits::Options options;
  options.max_downloads = 1;
  options.max_worker_downloads = 2;
  UserLimits limits(options, &clock);
  const auto refused = StatusIs(absl::StatusCode::kResourceExhausted);
  EXPECT_OK(limits.OpenDownload("alice"));
  EXPECT_THAT(limits.OpenDownload("alice"), refused);
  EXPECT_OK(limits.OpenDownload("bob"));
  // A worker of a user's name is another one.
  EXPECT_OK(limits.OpenWorkerDownload("alice"));
  EXPECT_OK(limits.OpenWorkerDownload("alice"));
  EXPECT_THAT(limits.OpenWorkerDownload("alice"), refused);
  EXPECT_EQ(limits.refusals().downloads, 2);
  limits.CloseDownload("alice");
  EXPECT_OK(limits.OpenDownload("alice"));
  limits.CloseWorkerDownload("alice");
  EXPECT_OK(limits.OpenWorkerDownload("alice"));
}

TEST(UserLimits, ChangesOfDatasetsThatWaitHaveLimits) {
  StillClock clock;
  UserLimits::Options options;
  options.max_dataset_request_bytes = 100;
  options.max_dataset_changes = 2;
  options.max_dataset_change_bytes = 150;
  UserLimits limits(options, &clock);
  const auto refused = StatusIs(absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(limits.OpenDatasetChange("alice", 101), refused);
  EXPECT_OK(limits.OpenDatasetChange("alice", 100));
  EXPECT_THAT(limits.OpenDatasetChange("alice", 51), refused);
  EXPECT_OK(limits.OpenDatasetChange("alice", 50));
  EXPECT_THAT(limits.OpenDatasetChange("alice", 0), refused);
  EXPECT_OK(limits.OpenDatasetChange("bob", 100));
  EXPECT_EQ(limits.refusals().dataset_changes, 2);
  limits.CloseDatasetChange("alice", 100);
  EXPECT_OK(limits.OpenDatasetChange("alice", 100));
}

}  // namespace
}  // namespace comera::server
