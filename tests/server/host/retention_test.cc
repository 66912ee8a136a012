// What a running server forgets, and what a backup of it holds.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "client/backup_file.h"
#include "client/training_client.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "server/coordinator/coordinator.h"
#include "server/host/clock_check.h"
#include "server/rpc/proto_time.h"
#include "server/store/store_restore.h"
#include "tests/server/daemon/server_fixture.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RetentionTest : public ServerFixture {
 protected:
  RetentionTest() {
    options_.host.retention.keep_jobs = absl::Hours(48);
    options_.host.retention.keep_logs = absl::Hours(24);
    RestartServer();
  }

  // A finished job with a log and a model's file on the disk.
  std::string Finished(const std::string& request_id) {
    const std::string name = Create(TestSpec(1), request_id).name();
    Cancel(name);
    for (const std::string& path : {Log(name), Model(name)}) {
      EXPECT_OK(MakeDirectories(path.substr(0, path.rfind('/'))));
      std::ofstream(path) << "x";
    }
    return name;
  }
  std::string Path(const char* kind, const std::string& name) const {
    return options_.data_dir + "/" + kind + "/" + name.substr(5);
  }
  std::string Log(const std::string& name) const {
    return Path("logs", name) + "/1-0.log";
  }
  std::string Model(const std::string& name) const {
    return Path("artifacts", name) + "/final/model.safetensors";
  }
  static bool Exists(const std::string& path) {
    return std::filesystem::exists(path);
  }

  bool Known(const std::string& name) {
    v1::GetJobRequest request;
    request.set_name(name);
    v1::Job job;
    return training_->GetJob(Context().get(), request, &job).ok();
  }

  // Time passes, a sweep happens, and all that follows from it is done.
  void Pass(absl::Duration duration) {
    clock_.Advance(duration);
    server_->host().TickNow();
    // What it commits, shows and then removes, one after the other.
    for (int i = 0; i < 3; ++i) {
      Create(TestSpec(1));
      server_->host().io().Run([] {});
    }
  }
};

TEST_F(RetentionTest, FinishedJobsGoAfterTheirTimeUnfinishedOnesNever) {
  Pass(absl::Minutes(2));
  const std::string waiting = Create(TestSpec(1)).name();
  const std::string done = Finished("r");
  Pass(absl::Hours(2));
  EXPECT_TRUE(Exists(Log(done)));
  Pass(absl::Hours(23));
  EXPECT_FALSE(Exists(Log(done)));
  EXPECT_TRUE(Exists(Model(done)));
  EXPECT_TRUE(Known(done));
  Pass(absl::Hours(24));
  EXPECT_FALSE(Known(done));
  EXPECT_FALSE(Exists(Path("artifacts", done)));
  EXPECT_FALSE(Exists(Path("logs", done)));
  EXPECT_TRUE(Known(waiting));
  // Forgotten for good, and its request_id is free.
  RestartServer();
  EXPECT_FALSE(Known(done));
  EXPECT_TRUE(Known(waiting));
  EXPECT_NE(Create(TestSpec(1), "r").name(), done);
}

TEST_F(RetentionTest, DryRunRemovesNothing) {
  options_.host.retention.dry_run = true;
  RestartServer();
  Pass(absl::Minutes(2));
  const std::string done = Finished("r");
  Pass(absl::Hours(100));
  EXPECT_TRUE(Known(done));
  EXPECT_TRUE(Exists(Log(done)));
}

TEST_F(RetentionTest, AClockThatStartsFarAheadRemovesNothing) {
  Pass(absl::Minutes(2));
  const std::string done = Finished("r");
  clock_.Advance(31 * absl::Hours(24));
  RestartServer();
  Pass(absl::Minutes(2));
  Pass(absl::Hours(2));
  EXPECT_TRUE(Known(done));
  EXPECT_TRUE(Exists(Model(done)));
  // Nor after another start: a time that is not believed is not noted.
  RestartServer();
  Pass(absl::Minutes(2));
  Pass(absl::Hours(2));
  EXPECT_TRUE(Known(done));
  // An operator who confirms another day confirms nothing.
  options_.host.confirmed_day = clock_.Now() - absl::Hours(24 * 20);
  RestartServer();
  Pass(absl::Minutes(2));
  Pass(absl::Hours(2));
  EXPECT_TRUE(Known(done));
  options_.host.confirmed_day = clock_.Now();
  RestartServer();
  Pass(absl::Minutes(2));
  Pass(absl::Hours(2));
  EXPECT_FALSE(Known(done));
  EXPECT_FALSE(Exists(Path("artifacts", done)));
}

TEST_F(RetentionTest, AClockThatIsSetRightIsBelievedAgain) {
  Pass(absl::Minutes(2));
  const std::string done = Finished("r");
  const absl::Duration kAhead = 31 * absl::Hours(24);
  clock_.Advance(kAhead);
  RestartServer();
  Pass(absl::Minutes(2));
  Pass(absl::Hours(2));
  EXPECT_TRUE(Known(done));
  clock_.Advance(-kAhead);
  Pass(absl::Minutes(2));
  EXPECT_TRUE(Known(done));
  // What is due by the right time goes, without another start.
  Pass(absl::Hours(49));
  EXPECT_FALSE(Known(done));
}

// What passes while the server runs is believed, whatever it began with.
TEST_F(RetentionTest, TimeThatPassesCountsAlsoByAClockThatLeads) {
  Pass(absl::Minutes(2));
  const std::string done = Finished("r");
  clock_.Advance(31 * absl::Hours(24));
  options_.host.steady_now = [this] { return clock_.Now(); };
  RestartServer();
  Pass(absl::Minutes(2));
  Pass(absl::Hours(47));
  EXPECT_TRUE(Known(done));
  Pass(absl::Hours(2));
  EXPECT_FALSE(Known(done));
}

TEST(ClockCheckTest, TheLeadEndsOnceTheClockAgrees) {
  const absl::Time newest = absl::FromUnixSeconds(1000000);
  const absl::Time never = absl::InfinitePast();
  const absl::Time start = absl::FromUnixSeconds(50);
  const absl::Duration day = absl::Hours(24);
  ClockTrust trust(newest + 31 * day, newest, never, start);
  EXPECT_EQ(trust.Lead(newest + 31 * day, start), 31 * day);
  EXPECT_EQ(trust.Lead(newest + 33 * day, start + 2 * day), 31 * day);
  // It jumps ahead.
  EXPECT_EQ(trust.Lead(newest + 40 * day, start + 2 * day), 38 * day);
  // It is set back, though not to where it should be.
  EXPECT_EQ(trust.Lead(newest + 9 * day, start + 3 * day), 6 * day);
  EXPECT_EQ(trust.Lead(newest + 4 * day, start + 3 * day),
            absl::ZeroDuration());
  EXPECT_EQ(trust.Lead(newest + 40 * day, start + 3 * day),
            absl::ZeroDuration());
  EXPECT_EQ(
      ClockTrust(newest + day, newest, never, start).Lead(newest + day, start),
      absl::ZeroDuration());
}

TEST(ClockCheckTest, BelievesADay) {
  const absl::Time newest = absl::FromUnixSeconds(1000000);
  const absl::Time never = absl::InfinitePast();
  EXPECT_TRUE(MayExpireBy(newest, never, never));
  EXPECT_TRUE(MayExpireBy(newest + absl::Hours(24), newest, never));
  EXPECT_TRUE(MayExpireBy(newest - absl::Hours(1000), newest, never));
  EXPECT_FALSE(MayExpireBy(newest + absl::Hours(25), newest, never));
  const absl::Time now = newest + absl::Hours(240);
  EXPECT_TRUE(MayExpireBy(now, newest, now - absl::Hours(20)));
  EXPECT_FALSE(MayExpireBy(now, newest, now - absl::Hours(50)));
  EXPECT_FALSE(MayExpireBy(now, newest, now + absl::Hours(25)));
}

TEST(ExpiredJobsTest, WhatAnUnfinishedJobBeginsWithStays) {
  const absl::Time now = absl::FromUnixSeconds(1000000);
  const auto record = [](const std::string& name, int64_t serial,
                         v1::JobState state) {
    JobRecord record;
    record.set_serial(serial);
    record.mutable_job()->set_name(name);
    record.mutable_job()->set_state(state);
    *record.mutable_job()->mutable_spec() = TestSpec(1);
    return record;
  };
  JobRecord done = record("jobs/done", 1, v1::SUCCEEDED);
  JobRecord other = record("jobs/other", 2, v1::SUCCEEDED);
  for (JobRecord* each : {&done, &other}) {
    *each->mutable_job()->mutable_end_time() =
        ToTimestamp(now - absl::Hours(1));
  }
  JobRecord next = record("jobs/next", 3, v1::PAUSED);
  next.mutable_job()->mutable_spec()->mutable_start_from()->set_checkpoint(
      "jobs/done/checkpoints/5");
  const auto expired = [&](const JobRecord& third, absl::Time ended_before) {
    RandomIdSource ids;
    Coordinator coordinator(Coordinator::Options(), &ids);
    coordinator.Load({done, other, third}, now);
    return coordinator.ExpiredJobs(ended_before, 10);
  };
  EXPECT_THAT(expired(next, now), ElementsAre("jobs/other"));
  EXPECT_THAT(expired(next, now - absl::Hours(2)), IsEmpty());
  next.mutable_job()->set_state(v1::CANCELLED);
  EXPECT_THAT(expired(next, now), ElementsAre("jobs/done", "jobs/other"));
}

TEST_F(RetentionTest, OnlineBackupRestoresToAServerWithAllJobs) {
  const std::string done = Finished("r");
  const std::string waiting = Create(TestSpec(1), "w").name();
  const std::string backup = folder_.path() + "/jobs.backup";
  {
    const auto client = client::TrainingClient::Connect(server_->address(), {});
    const mode_t mask = umask(022);
    ASSERT_OK(client->CreateBackup(backup));
    umask(mask);
  }
  struct stat info = {};
  ASSERT_EQ(stat(backup.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_OK_AND_ASSIGN(const auto contents, client::VerifyBackup(backup));
  EXPECT_EQ(contents.jobs, 2);
  EXPECT_EQ(contents.events, 3);
  EXPECT_FALSE(Exists(options_.data_dir + "/backups/online.sqlite"));
  StopServer();
  options_.data_dir = folder_.path() + "/second";
  StorePlace place;
  place.data_dir = options_.data_dir;
  ASSERT_OK_AND_ASSIGN(const int64_t jobs, RestoreStore(place, backup));
  EXPECT_EQ(jobs, 2);
  StartServer();
  EXPECT_EQ(Get(done).state(), v1::CANCELLED);
  EXPECT_EQ(Create(TestSpec(1), "w").name(), waiting);
  EXPECT_EQ(Cancel(waiting).state(), v1::CANCELLED);
}

TEST_F(RetentionTest, DamagedBackupIsSeen) {
  const std::string path = folder_.path() + "/junk";
  std::ofstream(path) << std::string(10000, 'x');
  EXPECT_THAT(client::VerifyBackup(path),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(client::VerifyBackup(path + "2"),
              StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace comera::server
