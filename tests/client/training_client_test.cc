// Checks retries, streams, downloads and stopping of TrainingClient against a
// fake service.

#include "client/training_client.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/artifact_file.h"
#include "common/event.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/client/fake_training_service.h"

namespace comera::client {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const grpc::Status kUnavailable(grpc::StatusCode::UNAVAILABLE, "restarting");

TrainingClient::Options FastOptions() {
  TrainingClient::Options options;
  options.initial_backoff = absl::ZeroDuration();
  options.max_backoff = absl::ZeroDuration();
  return options;
}

class TrainingClientTest : public ::testing::Test {
 protected:
  TrainingClient& Connect(
      const TrainingClient::Options& options = FastOptions()) {
    client_ = TrainingClient::Connect(service_.Start(), options);
    return *client_;
  }

  void TearDown() override { service_.Shutdown(); }

  FakeTrainingService service_;
  std::unique_ptr<TrainingClient> client_;
};

v1::WatchJobResponse JobItem(v1::JobState state) {
  v1::WatchJobResponse response;
  response.mutable_job()->set_name("jobs/a");
  response.mutable_job()->set_state(state);
  return response;
}

v1::WatchJobResponse StateItem(int64_t sequence, v1::JobState state) {
  v1::WatchJobResponse response;
  response.mutable_event()->set_sequence(sequence);
  response.mutable_event()->mutable_state_change()->set_state(state);
  return response;
}

TEST_F(TrainingClientTest, ADeletionWhoseAnswerWasLostHasSucceeded) {
  int calls = 0;
  service_.delete_job = [&](const v1::DeleteJobRequest& request,
                            v1::DeleteJobResponse*) {
    if (request.name() == "jobs/a" && ++calls == 1) return kUnavailable;
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such job");
  };
  TrainingClient& client = Connect();
  EXPECT_OK(client.Delete("jobs/a"));
  EXPECT_THAT(client.Delete("jobs/b"), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(TrainingClientTest, SubmitRepeatsWithOneRequestId) {
  std::vector<std::string> ids;
  service_.create_job = [&](const v1::CreateJobRequest& request, v1::Job* job) {
    ids.push_back(request.request_id());
    if (ids.size() < 3) return kUnavailable;
    job->set_name("jobs/a");
    *job->mutable_spec() = request.spec();
    return grpc::Status::OK;
  };
  v1::JobSpec spec;
  spec.set_display_name("x");
  ASSERT_OK_AND_ASSIGN(const v1::Job job, Connect().Submit(spec));
  service_.Settle();
  EXPECT_EQ(job.name(), "jobs/a");
  EXPECT_EQ(job.spec().display_name(), "x");
  ASSERT_EQ(ids.size(), 3u);
  EXPECT_EQ(ids[0].size(), 32u);
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), 1u);
}

TEST_F(TrainingClientTest, FinalErrorsAreNotRepeated) {
  int calls = 0;
  service_.create_job = [&](const v1::CreateJobRequest&, v1::Job*) {
    ++calls;
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "model.layers");
  };
  EXPECT_THAT(Connect().Submit(v1::JobSpec()),
              StatusIs(absl::StatusCode::kInvalidArgument, "model.layers"));
  service_.Settle();
  EXPECT_EQ(calls, 1);
}

TEST_F(TrainingClientTest, GivesUpOnceTheTimeIsOver) {
  TrainingClient::Options options = FastOptions();
  options.timeout = absl::Milliseconds(200);
  // Nothing listens on port 1.
  auto client = TrainingClient::Connect("127.0.0.1:1", options);
  // The end may come in the middle of a try.
  EXPECT_THAT(client->Get("jobs/a").status().code(),
              AnyOf(absl::StatusCode::kUnavailable,
                    absl::StatusCode::kDeadlineExceeded));
}

TEST_F(TrainingClientTest, ListGoesThroughAllPages) {
  service_.list_jobs = [](const v1::ListJobsRequest& request,
                          v1::ListJobsResponse* response) {
    EXPECT_EQ(request.states_size(), 1);
    const int page =
        request.page_token().empty() ? 0 : std::stoi(request.page_token());
    for (int i = 0; i < 2; ++i) {
      response->add_jobs()->set_name(absl::StrCat("jobs/", 2 * page + i));
    }
    if (page < 2) response->set_next_page_token(std::to_string(page + 1));
    return grpc::Status::OK;
  };
  TrainingClient& client = Connect();
  ASSERT_OK_AND_ASSIGN(const auto all, client.List({v1::QUEUED}, 0));
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[5].name(), "jobs/5");
  ASSERT_OK_AND_ASSIGN(const auto some, client.List({v1::QUEUED}, 3));
  EXPECT_EQ(some.size(), 3u);
}

TEST_F(TrainingClientTest, ListRefusesAPageTokenWithoutEnd) {
  service_.list_jobs = [](const v1::ListJobsRequest&,
                          v1::ListJobsResponse* response) {
    response->set_next_page_token("again");
    return grpc::Status::OK;
  };
  EXPECT_THAT(Connect().List({}, 0), StatusIs(absl::StatusCode::kInternal));
}

TEST_F(TrainingClientTest, WatchResumesWithoutDuplicates) {
  std::vector<int64_t> resumed_after;
  service_.watch_job = [&](const v1::WatchJobRequest& request,
                           grpc::ServerContext*, auto* writer) {
    resumed_after.push_back(request.after_sequence());
    writer->Write(JobItem(v1::RUNNING));
    switch (resumed_after.size()) {
      case 1:
        writer->Write(StateItem(1, v1::QUEUED));
        writer->Write(StateItem(2, v1::RUNNING));
        return kUnavailable;
      case 2:
        // A server may repeat events that it is not sure were received.
        writer->Write(StateItem(2, v1::RUNNING));
        writer->Write(StateItem(3, v1::RUNNING));
        return grpc::Status::OK;
      default:
        writer->Write(StateItem(4, v1::SUCCEEDED));
        return grpc::Status::OK;
    }
  };
  service_.get_job = [](const v1::GetJobRequest& request, v1::Job* job) {
    job->set_name(request.name());
    job->set_state(v1::SUCCEEDED);
    return grpc::Status::OK;
  };
  std::vector<int64_t> sequences;
  int jobs = 0;
  ASSERT_OK_AND_ASSIGN(
      const v1::Job job,
      Connect().Watch(
          "jobs/a", {}, [&](const v1::Job&) { ++jobs; },
          [&](const v1::JobEvent& e) { sequences.push_back(e.sequence()); }));
  EXPECT_EQ(job.state(), v1::SUCCEEDED);
  service_.Settle();
  EXPECT_THAT(sequences, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(resumed_after, ElementsAre(0, 2, 3));
  EXPECT_EQ(jobs, 3);
}

TEST_F(TrainingClientTest, WatchOfAFinishedJobEndsAtOnce) {
  service_.watch_job = [&](const v1::WatchJobRequest&, grpc::ServerContext*,
                           auto* writer) {
    writer->Write(JobItem(v1::CANCELLED));
    return grpc::Status::OK;
  };
  service_.get_job = [](const v1::GetJobRequest&, v1::Job* job) {
    job->set_state(v1::CANCELLED);
    return grpc::Status::OK;
  };
  TrainingClient::WatchOptions options;
  options.after_sequence = 9;
  ASSERT_OK_AND_ASSIGN(const v1::Job job,
                       Connect().Watch("jobs/a", options, {}, {}));
  EXPECT_EQ(job.state(), v1::CANCELLED);
}

TEST_F(TrainingClientTest, WatchOfNoJobFails) {
  service_.watch_job = [&](const v1::WatchJobRequest&, grpc::ServerContext*,
                           auto*) {
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such job");
  };
  EXPECT_THAT(Connect().Watch("jobs/a", {}, {}, {}),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(TrainingClientTest, WatchGivesUpOnAServerThatStaysAway) {
  int calls = 0;
  service_.watch_job = [&](const v1::WatchJobRequest&, grpc::ServerContext*,
                           auto*) {
    ++calls;
    return kUnavailable;
  };
  TrainingClient::Options options = FastOptions();
  options.reconnect_timeout = absl::Milliseconds(50);
  EXPECT_THAT(Connect(options).Watch("jobs/a", {}, {}, {}),
              StatusIs(absl::StatusCode::kUnavailable));
  service_.Settle();
  EXPECT_GT(calls, 1);
}

TEST_F(TrainingClientTest, StopEndsAWatchAndDeadlinesDoToo) {
  Event watching;
  service_.watch_job = [&](const v1::WatchJobRequest&,
                           grpc::ServerContext* context, auto* writer) {
    writer->Write(JobItem(v1::RUNNING));
    watching.Notify();
    while (!context->IsCancelled()) {
      std::this_thread::yield();
    }
    return grpc::Status::CANCELLED;
  };
  TrainingClient& client = Connect();
  TrainingClient::WatchOptions options;
  options.deadline = absl::Now() + absl::Milliseconds(50);
  EXPECT_THAT(client.Watch("jobs/a", options, {}, {}),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  std::thread stopper([&] {
    watching.Wait();
    client.Stop();
  });
  EXPECT_THAT(client.Watch("jobs/a", {}, {}, {}),
              StatusIs(absl::StatusCode::kCancelled));
  stopper.join();
  EXPECT_THAT(client.Get("jobs/a"), StatusIs(absl::StatusCode::kCancelled));
  service_.Shutdown();
}

TEST_F(TrainingClientTest, LogsComeOnceAcrossDisconnects) {
  const std::string log = "0123456789";
  int calls = 0;
  service_.read_log = [&](const v1::ReadLogRequest& request,
                          grpc::ServerContext*, auto* writer) {
    EXPECT_EQ(request.rank(), 1);
    // Once it has begun, reading stays with the same attempt.
    EXPECT_EQ(request.attempt(), calls == 0 ? 0 : 7);
    ++calls;
    v1::ReadLogResponse response;
    response.set_attempt(7);
    // The server begins a little before the requested offset.
    const int64_t offset = std::max<int64_t>(0, request.offset() - 2);
    response.set_offset(offset);
    response.set_data(log.substr(offset, 5));
    writer->Write(response);
    return offset + 5 < 10 ? kUnavailable : grpc::Status::OK;
  };
  std::string text;
  TrainingClient::LogOptions options;
  options.rank = 1;
  EXPECT_OK(Connect().ReadLog("jobs/a", options,
                              [&](const std::string& data) { text += data; }));
  service_.Settle();
  EXPECT_EQ(text, log);
  EXPECT_EQ(calls, 3);
}

class DownloadTest : public TrainingClientTest {
 protected:
  // Serves `served` in pieces of 4 bytes, breaking off after every piece.
  absl::Status Download(const std::string& served, const std::string& told) {
    service_.download = [served, this](
                            const v1::DownloadArtifactRequest& request,
                            grpc::ServerContext*, auto* writer) {
      offsets_.push_back(request.offset());
      v1::DownloadArtifactResponse response;
      response.set_offset(request.offset());
      response.set_data(served.substr(request.offset(), 4));
      writer->Write(response);
      return request.offset() + 4 < static_cast<int64_t>(served.size())
                 ? kUnavailable
                 : grpc::Status::OK;
    };
    path_ = absl::StrCat(std::getenv("TEST_TMPDIR"), "/model.safetensors");
    std::remove(path_.c_str());
    v1::ArtifactFile file;
    file.set_path("model.safetensors");
    file.set_size_bytes(told.size());
    file.set_sha256(Sha256Hex(told));
    return Connect().DownloadArtifact("jobs/a/models/final", file, path_);
  }

  std::string path_;
  std::vector<int64_t> offsets_;
};

TEST_F(DownloadTest, ResumesByOffset) {
  EXPECT_OK(Download("0123456789", "0123456789"));
  ASSERT_OK_AND_ASSIGN(const std::string contents, ReadFile(path_));
  EXPECT_EQ(contents, "0123456789");
  service_.Settle();
  EXPECT_THAT(offsets_, ElementsAre(0, 4, 8));
}

class DamagedDownloadTest : public DownloadTest,
                            public ::testing::WithParamInterface<const char*> {
};

TEST_P(DamagedDownloadTest, LeavesNothing) {
  EXPECT_THAT(Download(GetParam(), "0123456789"),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(ReadFile(path_), StatusIs(absl::StatusCode::kNotFound));
}

INSTANTIATE_TEST_SUITE_P(All, DamagedDownloadTest,
                         ::testing::Values("0123456780", "012345",
                                           "0123456789abcdef"));

TEST(ArtifactFileWriter, WhatIsForItsOwnerAloneIsSoFromItsFirstByteOn) {
  const std::string folder = absl::StrCat(std::getenv("TEST_TMPDIR"), "/own");
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/file";
  v1::ArtifactFile file;
  file.set_size_bytes(3);
  file.set_sha256(Sha256Hex("abc"));
  const auto only_file = [&] {
    const std::filesystem::directory_iterator entries(folder);
    return entries->path();
  };
  const auto others_may = [&] {
    const auto mode = std::filesystem::status(only_file()).permissions();
    return (mode & ~std::filesystem::perms::owner_all) !=
           std::filesystem::perms::none;
  };
  using Readers = ArtifactFileWriter::Readers;
  {
    ASSERT_OK_AND_ASSIGN(auto open, ArtifactFileWriter::Create(path, file));
    ASSERT_OK(open->Append(0, "a"));
  }
  EXPECT_TRUE(others_may());
  // It goes on with the part that others could read.
  ASSERT_OK_AND_ASSIGN(auto own,
                       ArtifactFileWriter::Create(path, file, Readers::kOwner));
  EXPECT_EQ(own->size(), 1);
  EXPECT_FALSE(others_may());
  ASSERT_OK(own->Append(1, "bc"));
  ASSERT_OK(own->Finish());
  EXPECT_EQ(only_file(), path);
  EXPECT_FALSE(others_may());
}

}  // namespace
}  // namespace comera::client
