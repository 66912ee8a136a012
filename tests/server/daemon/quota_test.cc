// Checks how many jobs and sweeps one user may keep and have waiting, over real
// gRPC: each test is an attack on everybody else's share, and fails.
#include <sys/resource.h>

#include <condition_variable>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "comera/v1/sweep_service.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/server/daemon/quota_fixture.h"
#include "tests/server/test_spec.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

v1::SweepSpec Seeds(int count) {
  v1::SweepSpec spec;
  *spec.mutable_job() = TestSpec(1);
  for (int seed = 1; seed <= count; ++seed) {
    spec.mutable_grid()->add_seeds(seed);
  }
  return spec;
}

// The attack: one sweep queued 512 jobs, whatever --user_queued_jobs said, and
// left nothing of it in the audit log.
TEST_F(QuotaTest, ASweepHasItsOwnersLimitsAndAuditLog) {
  quota().queued_jobs = 10;
  Begin();
  v1::Sweep sweep;
  grpc::Status status = SweepAs(alice_, Seeds(200), &sweep);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const std::string by = "by " + sweep.name();
  // Every run is answered, one way or the other, before the first is refused
  // for the second time.
  const auto refused = [&] {
    int count = 0;
    const v1::Sweep now = GetSweep(sweep.name());
    for (const v1::SweepRun& run : now.runs()) {
      count +=
          run.reason().find("10 jobs of alice are waiting") != std::string::npos
              ? 1
              : 0;
    }
    return count;
  };
  EXPECT_TRUE(Await([&] { return refused() == 190; })) << refused();
  // A place is taken before its job is stored, so that the last refusal may
  // come before the last job.
  EXPECT_TRUE(Await([&] { return Jobs().size() == 10; })) << Jobs().size();
  EXPECT_TRUE(Await(
      [&] { return Audit("TrainingService.CreateJob", by).size() == 10; }));
  const auto entries = Audit("TrainingService.CreateJob", by);
  ASSERT_THAT(entries, SizeIs(10));
  for (const v1::AuditEntry& entry : entries) {
    EXPECT_EQ(entry.user(), "alice");
    EXPECT_EQ(entry.result(), "OK");
    EXPECT_THAT(entry.resource(), HasSubstr("jobs/"));
  }
  // The owner's own jobs have the same limit, and others are not held up.
  EXPECT_EQ(CreateAs(alice_).error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_EQ(CreateAs(bob_).error_code(), Code::OK);
  // Where a job makes room, the sweep goes on.
  CancelAs(alice_, Jobs().back().name());
  clock_.Advance(absl::Seconds(6));
  server_->host().TickNow();
  EXPECT_TRUE(Await([&] { return Jobs().size() == 12; }));
  // What the sweep cancels is logged as well.
  v1::CancelSweepRequest cancel;
  cancel.set_name(sweep.name());
  ASSERT_TRUE(sweeps_->CancelSweep(As(alice_).get(), cancel, &sweep).ok());
  EXPECT_TRUE(Await(
      [&] { return Audit("TrainingService.CancelJob", by).size() == 10; }));
}

// The attack: a sweep of a megabyte took 13 s and 2.3 GB before it was refused.
TEST_F(QuotaTest, LargeSweepsAreRefusedAtOnce) {
  Begin();
  v1::SweepSpec value = Seeds(512);
  v1::FieldValues& axis = *value.mutable_grid()->add_fields();
  axis.set_path("labels.note");
  axis.add_values(std::string(3900000, 'x'));
  v1::SweepSpec base = Seeds(512);
  v1::CodeDirectory& code =
      *base.mutable_job()->mutable_data()->mutable_code_directory();
  for (int i = 0; i < 900; ++i) code.add_roots(std::string(4000, 'y'));
  v1::SweepSpec product = Seeds(512);
  for (int i = 0; i < 16; ++i) {
    v1::FieldValues& large = *product.mutable_grid()->add_fields();
    large.set_path(absl::StrCat("labels.k", i));
    large.add_values(std::string(4000, 'x'));
  }
  v1::Sweep sweep;
  rusage before, after;
  ASSERT_EQ(getrusage(RUSAGE_SELF, &before), 0);
  EXPECT_EQ(SweepAs(viewer_, value, &sweep).error_code(),
            Code::PERMISSION_DENIED);
  EXPECT_EQ(SweepAs(viewer_, base, &sweep).error_code(),
            Code::PERMISSION_DENIED);
  grpc::Status status = SweepAs(alice_, value, &sweep);
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("of at most 1048576"));
  status = SweepAs(alice_, base, &sweep);
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("of at most 65536"));
  status = SweepAs(alice_, product, &sweep);
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("of at most 16 MiB"));
  ASSERT_EQ(getrusage(RUSAGE_SELF, &after), 0);
  // The processors' time, which does not grow where others use them too.
  const auto used = [](const rusage& usage) {
    return absl::DurationFromTimeval(usage.ru_utime) +
           absl::DurationFromTimeval(usage.ru_stime);
  };
  const absl::Duration took = used(after) - used(before);
  std::cout << "took=" << took
            << " grew_kib=" << after.ru_maxrss - before.ru_maxrss << "\n";
  // All five; sanitizers take longer than the milliseconds that are measured.
  EXPECT_LT(took, absl::Seconds(3));
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 128 << 10);
}

// The attack: jobs that were cancelled at once cost memory for 30 days.
TEST_F(QuotaTest, JobsThatAreKeptCount) {
  quota().jobs = 3;
  Begin();
  std::string name;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(CreateAs(alice_, &name).error_code(), Code::OK);
    CancelAs(alice_, name);
  }
  const grpc::Status status = CreateAs(alice_);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              HasSubstr("alice has 3 jobs; the limit for a user is 3 "
                        "(--user_jobs of the server)"));
  EXPECT_EQ(CreateAs(bob_).error_code(), Code::OK);
  DeleteAs(alice_, name);
  EXPECT_EQ(CreateAs(alice_).error_code(), Code::OK);
  // Counted anew after a restart.
  RestartServer();
  EXPECT_EQ(CreateAs(alice_).error_code(), Code::RESOURCE_EXHAUSTED);
}

TEST_F(QuotaTest, TheirSpecificationsCountInBytes) {
  quota().job_bytes = 100000;
  Begin();
  v1::JobSpec spec = TestSpec(1);
  v1::CodeDirectory& code = *spec.mutable_data()->mutable_code_directory();
  for (int i = 0; i < 10; ++i) code.add_roots("/" + std::string(4000, 'y'));
  EXPECT_EQ(CreateAs(alice_, nullptr, spec).error_code(), Code::OK);
  EXPECT_EQ(CreateAs(alice_, nullptr, spec).error_code(), Code::OK);
  const grpc::Status status = CreateAs(alice_, nullptr, spec);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--user_job_bytes"));
  EXPECT_EQ(CreateAs(alice_).error_code(), Code::OK);
}

TEST_F(QuotaTest, SpecificationsOfSweepsCountToo) {
  quota().job_bytes = 60000;
  Begin();
  v1::SweepSpec large = Seeds(2);
  v1::CodeDirectory& code =
      *large.mutable_job()->mutable_data()->mutable_code_directory();
  for (int i = 0; i < 10; ++i) code.add_roots("/" + std::string(4000, 'y'));
  // Its jobs have no room beside it, and wait.
  v1::Sweep sweep;
  ASSERT_EQ(SweepAs(alice_, large, &sweep).error_code(), Code::OK);
  EXPECT_EQ(SweepAs(alice_, large, &sweep).error_code(),
            Code::RESOURCE_EXHAUSTED);
  grpc::Status status = CreateAs(alice_, nullptr, large.job());
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--user_job_bytes"));
  EXPECT_EQ(SweepAs(bob_, large, &sweep).error_code(), Code::OK);
}

// Requests that are on their way into the store together are counted together.
TEST_F(QuotaTest, ABurstIsNoWayAroundALimit) {
  quota().queued_jobs = 3;
  Begin();
  struct Call {
    std::unique_ptr<grpc::ClientContext> context;
    v1::CreateJobRequest request;
    v1::Job job;
  };
  std::vector<std::unique_ptr<Call>> calls;
  std::mutex mutex;
  std::condition_variable ended;
  int pending = 200, accepted = 0;
  for (int i = 0; i < 200; ++i) {
    auto call = std::make_unique<Call>();
    call->context = As(alice_);
    *call->request.mutable_spec() = TestSpec(1);
    training_->async()->CreateJob(
        call->context.get(), &call->request, &call->job,
        [&](const grpc::Status& status) {
          const std::lock_guard<std::mutex> lock(mutex);
          accepted += status.ok() ? 1 : 0;
          if (--pending == 0) ended.notify_all();
        });
    calls.push_back(std::move(call));
  }
  std::unique_lock<std::mutex> lock(mutex);
  ended.wait(lock, [&] { return pending == 0; });
  EXPECT_EQ(accepted, 3);
}

TEST_F(QuotaTest, ResumedJobsWaitAmongTheOthers) {
  quota().queued_jobs = 1;
  Begin();
  std::string name;
  ASSERT_EQ(CreateAs(alice_, &name).error_code(), Code::OK);
  v1::PauseJobRequest pause;
  pause.set_name(name);
  v1::Job job;
  ASSERT_TRUE(training_->PauseJob(As(alice_).get(), pause, &job).ok());
  ASSERT_EQ(CreateAs(alice_).error_code(), Code::OK);
  v1::ResumeJobRequest resume;
  resume.set_name(name);
  EXPECT_EQ(training_->ResumeJob(As(alice_).get(), resume, &job).error_code(),
            Code::RESOURCE_EXHAUSTED);
}

TEST_F(QuotaTest, NobodyHasTheWholeQueue) {
  options_.host.coordinator.max_queued_jobs = 10;
  quota().queue_share = 0.2;
  Begin();
  EXPECT_EQ(CreateAs(alice_).error_code(), Code::OK);
  EXPECT_EQ(CreateAs(alice_).error_code(), Code::OK);
  const grpc::Status status = CreateAs(alice_);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              HasSubstr("--user_queue_share of the server: 0.2 of 10"));
  EXPECT_EQ(CreateAs(bob_).error_code(), Code::OK);
}

TEST_F(QuotaTest, SweepsCount) {
  quota().active_sweeps = 1;
  Begin();
  v1::Sweep sweep;
  ASSERT_EQ(SweepAs(alice_, Seeds(2), &sweep).error_code(), Code::OK);
  const grpc::Status status = SweepAs(alice_, Seeds(2), &sweep);
  EXPECT_EQ(status.error_code(), Code::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--user_active_sweeps"));
  EXPECT_EQ(SweepAs(bob_, Seeds(2), &sweep).error_code(), Code::OK);
}

// A server without tokens is one person's, who has no limits.
TEST_F(QuotaTest, OpenServersHaveNoLimits) {
  quota().jobs = 1;
  quota().queued_jobs = 1;
  quota().datasets = 1;
  RestartServer();
  EXPECT_EQ(CreateAs("").error_code(), Code::OK);
  EXPECT_EQ(CreateAs("").error_code(), Code::OK);
}

}  // namespace
}  // namespace comera::server
