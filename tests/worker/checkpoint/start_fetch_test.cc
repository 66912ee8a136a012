// Checks the preparation of a member on a thread of its own, and the fetch of
// the checkpoint that its job starts from.
#include "worker/checkpoint/start_fetch.h"

#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_training_service.h"
#include "worker/gang/member_preparer.h"

namespace comera::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StartFetchTest : public ::testing::Test {
 protected:
  ~StartFetchTest() override { service_.Shutdown(); }

  void Serve() {
    channel_ = grpc::CreateChannel(service_.Start(),
                                   grpc::InsecureChannelCredentials());
  }

  absl::Status Fetch(const std::atomic<bool>& abandoned) {
    StartFetchOptions options;
    options.min_backoff = absl::Milliseconds(1);
    options.max_backoff = absl::Milliseconds(5);
    return FetchStart(options, channel_, "jobs/a/checkpoints/40", start_,
                      abandoned);
  }

  client::FakeTrainingService service_;
  std::shared_ptr<grpc::Channel> channel_;
  const PathBelow start_ = {
      ::testing::TempDir() + "/" +
          ::testing::UnitTest::GetInstance()->current_test_info()->name(),
      "work/start"};
  const std::string path_ = start_.ToString();
  const std::atomic<bool> wanted_{false};
};

// Makes a file as the trainer writes it.
std::string State(const std::string& text) {
  return absl::StrCat(text, "\nsha256 ", Sha256Hex(text), "\n");
}

TEST_F(StartFetchTest, BringsTheFileWholeAndOnce) {
  const std::string state = State("one state");
  std::vector<int64_t> offsets;
  service_.download = [&](const v1::DownloadArtifactRequest& request,
                          grpc::ServerContext*, auto* writer) {
    offsets.push_back(request.offset());
    EXPECT_EQ(request.name(), "jobs/a/checkpoints/40");
    EXPECT_EQ(request.path(), "training_state.checkpoint");
    v1::DownloadArtifactResponse part;
    part.set_offset(request.offset());
    part.set_data(state.substr(request.offset(), 30));
    writer->Write(part);
    if (offsets.size() == 1) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "away");
    }
    part.set_offset(request.offset() + 30);
    part.set_data(state.substr(part.offset()));
    writer->Write(part);
    return grpc::Status::OK;
  };
  Serve();
  EXPECT_OK(Fetch(wanted_));
  ASSERT_OK_AND_ASSIGN(const std::string contents, ReadFile(path_));
  EXPECT_EQ(contents, state);
  EXPECT_OK(Fetch(wanted_));
  service_.Shutdown();
  EXPECT_THAT(offsets, ElementsAre(0, 30));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".tmp.fetch"));
}

TEST_F(StartFetchTest, WhatIsDamagedIsNotTaken) {
  service_.download = [](const v1::DownloadArtifactRequest&,
                         grpc::ServerContext*, auto* writer) {
    v1::DownloadArtifactResponse part;
    part.set_data(State("one state") + "x");
    writer->Write(part);
    return grpc::Status::OK;
  };
  Serve();
  EXPECT_THAT(Fetch(wanted_), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".tmp.fetch"));
}

TEST_F(StartFetchTest, AnAbandonedFetchIsCancelledWhileItBlocks) {
  std::atomic<bool> abandoned{false};
  service_.download = [&](const v1::DownloadArtifactRequest&,
                          grpc::ServerContext* context, auto*) {
    abandoned = true;
    while (!context->IsCancelled()) std::this_thread::yield();
    return grpc::Status(grpc::StatusCode::CANCELLED, "");
  };
  Serve();
  EXPECT_THAT(Fetch(abandoned), StatusIs(absl::StatusCode::kAborted));
}

TEST_F(StartFetchTest, WhatTheCoordinatorDoesNotHaveIsAnError) {
  service_.download = [](const v1::DownloadArtifactRequest&,
                         grpc::ServerContext*, auto*) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such file");
  };
  Serve();
  EXPECT_THAT(Fetch(wanted_), StatusIs(absl::StatusCode::kNotFound,
                                       HasSubstr("jobs/a/checkpoints/40")));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(StartFetchTest, AGapIsNotTaken) {
  service_.download = [](const v1::DownloadArtifactRequest&,
                         grpc::ServerContext*, auto* writer) {
    v1::DownloadArtifactResponse part;
    part.set_offset(5);
    part.set_data("x");
    writer->Write(part);
    return grpc::Status::OK;
  };
  Serve();
  EXPECT_THAT(Fetch(wanted_), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(StartFetchTest, AnAbandonedFetchEnds) {
  std::atomic<bool> abandoned{false};
  service_.download = [&](const v1::DownloadArtifactRequest&,
                          grpc::ServerContext*, auto*) {
    abandoned = true;
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "away");
  };
  Serve();
  EXPECT_THAT(Fetch(abandoned), StatusIs(absl::StatusCode::kAborted));
}

// The folder belongs to the job's user.
TEST_F(StartFetchTest, ALinkIsNoCheckpoint) {
  const std::string state = State("one state");
  service_.download = [&](const v1::DownloadArtifactRequest&,
                          grpc::ServerContext*, auto* writer) {
    v1::DownloadArtifactResponse part;
    part.set_data(state);
    writer->Write(part);
    return grpc::Status::OK;
  };
  Serve();
  const std::string elsewhere = start_.root + "/elsewhere";
  ASSERT_OK(MakeDirectories(start_.Parent().ToString()));
  ASSERT_OK(WriteFileAtomically(elsewhere, "another's"));
  std::filesystem::create_symlink(elsewhere, path_);
  EXPECT_OK(Fetch(wanted_));
  EXPECT_EQ(*ReadFile(path_), state);
  EXPECT_EQ(*ReadFile(elsewhere), "another's");
  std::filesystem::remove_all(start_.Parent().ToString());
  ASSERT_OK(MakeDirectories(start_.root + "/folder"));
  std::filesystem::create_symlink("folder", start_.Parent().ToString());
  EXPECT_THAT(Fetch(wanted_), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_TRUE(std::filesystem::is_empty(start_.root + "/folder"));
}

MemberPreparer::Start StartOf(GangMembers::Id id) {
  MemberPreparer::Start start;
  start.id = id;
  start.assignment.set_job("jobs/a");
  return start;
}

TEST(RankPreparerTest, TellsOfEachEndOnce) {
  std::promise<void> told;
  MemberPreparer preparer([&] { told.set_value(); });
  preparer.Begin(StartOf(7), [](const std::atomic<bool>&) {
    return absl::NotFoundError("gone");
  });
  told.get_future().wait();
  const auto done = preparer.PopFinished();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].start.id, 7);
  EXPECT_EQ(done[0].start.assignment.job(), "jobs/a");
  EXPECT_THAT(done[0].status, StatusIs(absl::StatusCode::kNotFound));
  EXPECT_TRUE(preparer.PopFinished().empty());
  EXPECT_FALSE(preparer.Abandon(7));
}

TEST(RankPreparerTest, WhatIsAbandonedIsNotTold) {
  std::promise<void> begun;
  bool told = false;
  {
    MemberPreparer preparer([&] { told = true; });
    preparer.Begin(StartOf(7), [&](const std::atomic<bool>& abandoned) {
      begun.set_value();
      while (!abandoned) std::this_thread::yield();
      return absl::OkStatus();
    });
    begun.get_future().wait();
    EXPECT_TRUE(preparer.PopFinished().empty());
    EXPECT_TRUE(preparer.Abandon(7));
    EXPECT_FALSE(preparer.Abandon(7));
    EXPECT_TRUE(preparer.PopFinished().empty());
  }
  EXPECT_FALSE(told);
}

TEST(RankPreparerTest, EndsWithoutBeingAsked) {
  MemberPreparer preparer([] {});
  preparer.Begin(StartOf(1), [](const std::atomic<bool>& abandoned) {
    while (!abandoned) std::this_thread::yield();
    return absl::OkStatus();
  });
}

}  // namespace
}  // namespace comera::worker
