// The workers' API, logs and artifacts over real gRPC.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "server/api/peer_addresses.h"
#include "tests/server/daemon/server_fixture.h"

namespace comera::server {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class WorkerServiceTest : public ServerFixture {
 protected:
  std::string RunningJob() {
    const std::string name = Create(TestSpec(2)).name();
    RunAll(w1_);
    EXPECT_EQ(Get(name).state(), v1::RUNNING);
    return name;
  }

  static v1::LogChunk Chunk(const std::string& job, int32_t rank,
                            int64_t offset, const std::string& data) {
    v1::LogChunk chunk;
    chunk.set_job(job);
    chunk.set_attempt(1);
    chunk.set_rank(rank);
    chunk.set_offset(offset);
    chunk.set_data(data);
    return chunk;
  }

  Worker w1_{"w1"};
};

TEST_F(WorkerServiceTest, HeldCallEndsWithNewsOrWithTheServer) {
  Sync(w1_);
  w1_.hold = absl::Seconds(15);
  v1::SynchronizeResponse response;
  grpc::Status status;
  std::thread held([&] { status = Sync(w1_, &response); });
  const std::string name = Create(TestSpec(2)).name();
  held.join();
  ASSERT_TRUE(status.ok()) << status.error_message();
  // The call may have come after the placement, but never without it.
  ASSERT_THAT(response.desired(), SizeIs(2));
  EXPECT_EQ(response.desired(0).job(), name);

  std::thread stopped([&] { status = Sync(w1_, &response); });
  server_->Shutdown();
  stopped.join();
  // CANCELLED: the call came while gRPC was stopping.
  EXPECT_THAT(
      status.error_code(),
      ::testing::AnyOf(grpc::StatusCode::OK, grpc::StatusCode::UNAVAILABLE,
                       grpc::StatusCode::CANCELLED))
      << status.error_message();
}

TEST_F(WorkerServiceTest, HeldCallWaitsForTheTick) {
  Sync(w1_);
  w1_.hold = absl::Seconds(5);
  v1::SynchronizeResponse response;
  grpc::Status status;
  std::atomic<bool> done{false};
  std::thread held([&] {
    status = Sync(w1_, &response);
    done = true;
  });
  // Until the call arrived, ticks at later times do nothing to it.
  while (!done) {
    clock_.Advance(absl::Seconds(1));
    server_->host().TickNow();
    std::this_thread::yield();
  }
  held.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(WorkerServiceTest, OldIncarnationIsAborted) {
  Sync(w1_);
  Worker again{"w1", "i2"};
  Sync(again);
  v1::SynchronizeResponse response;
  EXPECT_EQ(Sync(w1_, &response).error_code(), grpc::StatusCode::ABORTED);
  w1_.id = "../w1";
  EXPECT_EQ(Sync(w1_, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(WorkerServiceTest, CancelEndsWhenTheRanksDid) {
  const std::string name = RunningJob();
  EXPECT_EQ(Cancel(name).state(), v1::CANCELLING);
  EXPECT_THAT(Sync(w1_).desired(), SizeIs(0));
  RestartServer();
  EXPECT_EQ(Get(name).state(), v1::CANCELLING);
  for (v1::MemberStatus& rank : w1_.ranks) {
    rank.set_phase(v1::MemberStatus::EXITED);
  }
  EXPECT_THAT(Sync(w1_).forget(), SizeIs(2));
  EXPECT_EQ(Get(name).state(), v1::CANCELLED);
}

TEST_F(WorkerServiceTest, LogsAreStoredOnceAndReadBack) {
  const std::string name = RunningJob();
  w1_.logs = {Chunk(name, 0, 0, "hello "), Chunk(name, 0, 6, "world\n")};
  v1::SynchronizeResponse answer = Sync(w1_);
  ASSERT_THAT(answer.log_acks(), SizeIs(2));
  EXPECT_EQ(answer.log_acks(1).offset(), 12);
  // Repeated, overlapping, behind a gap, of nobody.
  w1_.logs = {Chunk(name, 0, 0, "hello "), Chunk(name, 0, 6, "world\nagain\n"),
              Chunk(name, 0, 100, "far"), Chunk(name, 7, 0, "no such rank"),
              Chunk("jobs/none", 0, 0, "no such job")};
  answer = Sync(w1_);
  ASSERT_THAT(answer.log_acks(), SizeIs(5));
  EXPECT_EQ(answer.log_acks(0).offset(), 12);
  EXPECT_EQ(answer.log_acks(1).offset(), 18);
  EXPECT_EQ(answer.log_acks(2).offset(), 18);
  EXPECT_EQ(answer.log_acks(3).offset(), 12);
  EXPECT_FALSE(std::filesystem::exists(options_.data_dir + "/logs/none"));

  v1::ReadLogRequest request;
  request.set_name(name);
  std::string log;
  EXPECT_TRUE(ReadLog(request, &log).ok());
  EXPECT_EQ(log, "hello world\nagain\n");
  request.set_offset(12);
  request.set_attempt(1);
  log.clear();
  EXPECT_TRUE(ReadLog(request, &log).ok());
  EXPECT_EQ(log, "again\n");
  request.set_rank(1);
  EXPECT_EQ(ReadLog(request, &log).error_code(), grpc::StatusCode::NOT_FOUND);
  request.set_name("jobs/none");
  EXPECT_EQ(ReadLog(request, &log).error_code(), grpc::StatusCode::NOT_FOUND);
  request.set_rank(-1);
  EXPECT_EQ(ReadLog(request, &log).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(WorkerServiceTest, LogIsFollowedUntilTheJobIsFinal) {
  const std::string name = Create(TestSpec(2)).name();
  v1::ReadLogRequest request;
  request.set_name(name);
  request.set_follow(true);
  std::string log;
  grpc::Status status;
  // Waits for the first attempt, too.
  std::thread reader([&] { status = ReadLog(request, &log); });
  RunAll(w1_);
  const std::string big(200000, 'x');
  w1_.logs = {Chunk(name, 0, 0, "one\n")};
  Sync(w1_);
  w1_.logs = {Chunk(name, 0, 4, big), Chunk(name, 1, 0, "other rank\n")};
  Sync(w1_);
  w1_.logs = {Chunk(name, 0, 4 + 200000, "last\n")};
  for (v1::MemberStatus& rank : w1_.ranks) {
    rank.set_phase(v1::MemberStatus::EXITED);
    rank.mutable_failure()->set_failure_class(v1::USER);
  }
  Sync(w1_);
  reader.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(log, "one\n" + big + "last\n");
  EXPECT_EQ(Get(name).state(), v1::FAILED);
}

TEST_F(WorkerServiceTest, ModelIsUploadedAndDownloaded) {
  const std::string name = RunningJob();
  const std::string artifact = name + "/models/final";
  std::string weights;
  for (int i = 0; i < 700000; ++i) weights.push_back(static_cast<char>(i * 7));
  const v1::ArtifactFile file = Describe("model.safetensors", weights);
  const v1::ArtifactFile config = Describe("config.json", "{}");
  ASSERT_TRUE(Upload(artifact, 1, file, weights).ok());
  // Invisible until the job has ended with it.
  std::string data;
  EXPECT_EQ(Download(artifact, "model.safetensors", 0, &data).error_code(),
            grpc::StatusCode::NOT_FOUND);
  // Again, as after a lost answer.
  ASSERT_TRUE(Upload(artifact, 1, file, weights).ok());
  w1_.ranks[0].set_phase(v1::MemberStatus::EXITED);
  w1_.ranks[0].mutable_result()->set_outcome(v1::TARGET_MET);
  w1_.ranks[0].mutable_model()->set_name(artifact);
  *w1_.ranks[0].mutable_model()->add_files() = file;
  *w1_.ranks[0].mutable_model()->add_files() = config;
  w1_.ranks[1].set_phase(v1::MemberStatus::EXITED);
  EXPECT_THAT(Sync(w1_).forget(), SizeIs(1));
  EXPECT_EQ(Get(name).state(), v1::RUNNING);
  RestartServer();
  ASSERT_TRUE(Upload(artifact, 1, config, "{}").ok());
  EXPECT_EQ(Get(name).state(), v1::SUCCEEDED);
  ASSERT_THAT(Get(name).models(), SizeIs(1));
  EXPECT_THAT(Sync(w1_).forget(), SizeIs(2));

  ASSERT_TRUE(Download(artifact, "model.safetensors", 0, &data).ok());
  EXPECT_EQ(data, weights);
  data.clear();
  ASSERT_TRUE(Download(artifact, "model.safetensors", 699990, &data).ok());
  EXPECT_EQ(data, weights.substr(699990));
  data.clear();
  EXPECT_TRUE(Download(artifact, "config.json", 2, &data).ok());
  EXPECT_EQ(Download(artifact, "config.json", 3, &data).error_code(),
            grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(Download(artifact, "../config.json", 0, &data).error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Download(name, "config.json", 0, &data).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);

  // Damage on the disk is noticed.
  const std::string path = options_.data_dir + "/artifacts/" + name.substr(5) +
                           "/final/model.safetensors";
  ASSERT_EQ(std::filesystem::file_size(path), weights.size());
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary)
          .seekp(1000)
      << "damage";
  EXPECT_EQ(Download(artifact, "model.safetensors", 0, &data).error_code(),
            grpc::StatusCode::DATA_LOSS);
  std::filesystem::resize_file(path, 10);
  EXPECT_EQ(Download(artifact, "model.safetensors", 5, &data).error_code(),
            grpc::StatusCode::DATA_LOSS);
}

TEST_F(WorkerServiceTest, BadUploadsLeaveNothing) {
  const std::string name = RunningJob();
  const std::string artifact = name + "/models/final";
  const v1::ArtifactFile good = Describe("a.bin", "abc");
  struct Case {
    const char* what;
    std::string artifact;
    int64_t attempt;
    v1::ArtifactFile file;
    std::string data;
    grpc::StatusCode code;
  };
  auto with_path = [&](const std::string& path) {
    v1::ArtifactFile file = good;
    file.set_path(path);
    return file;
  };
  v1::ArtifactFile negative = good;
  negative.set_size_bytes(-1);
  v1::ArtifactFile no_sum = good;
  no_sum.set_sha256("abc");
  const auto bad = grpc::StatusCode::INVALID_ARGUMENT;
  const std::vector<Case> cases = {
      {"stale attempt", artifact, 2, good, "abc", grpc::StatusCode::ABORTED},
      {"no job", "jobs/none/models/final", 1, good, "abc",
       grpc::StatusCode::NOT_FOUND},
      {"no artifact", name, 1, good, "abc", bad},
      {"artifact above", name + "/models/..", 1, good, "abc", bad},
      {"path above", artifact, 1, with_path("../a.bin"), "abc", bad},
      {"absolute path", artifact, 1, with_path("/etc/passwd"), "abc", bad},
      {"hidden", artifact, 1, with_path(".a"), "abc", bad},
      {"empty path", artifact, 1, with_path(""), "abc", bad},
      {"negative size", artifact, 1, negative, "abc", bad},
      {"no checksum", artifact, 1, no_sum, "abc", bad},
      {"too short", artifact, 1, good, "ab", grpc::StatusCode::DATA_LOSS},
      {"too long", artifact, 1, good, "abcd", grpc::StatusCode::DATA_LOSS},
      {"changed", artifact, 1, good, "abd", grpc::StatusCode::DATA_LOSS},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    const grpc::Status status = Upload(c.artifact, c.attempt, c.file, c.data);
    EXPECT_EQ(status.error_code(), c.code) << status.error_message();
  }
  auto context = Context();
  v1::UploadArtifactResponse response;
  auto writer = worker_stub_->UploadArtifact(context.get(), &response);
  writer->WritesDone();
  EXPECT_EQ(writer->Finish().error_code(), bad);
  // The server removes temporary files when a stream is gone.
  StopServer();
  for (const char* folder : {"/uploads", "/artifacts"}) {
    const std::string root = options_.data_dir + folder;
    if (!std::filesystem::exists(root)) continue;
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(root)) {
      EXPECT_FALSE(entry.is_regular_file()) << entry.path();
    }
  }
}

TEST_F(WorkerServiceTest, DataFolderHasOneServer) {
  auto second =
      ComeraServer::Start(options_, &clock_, &ids_, [](const absl::Status&) {});
  EXPECT_THAT(second, StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("in use")));
}

TEST_F(WorkerServiceTest, ListensBeyondLoopbackOnlyWhenTold) {
  ComeraServer::Options options = options_;
  options.data_dir = folder_.path() + "/other";
  for (const char* listen : {"0.0.0.0:0", "[::]:0", "192.0.2.1:80",
                             "127.0.0.1.example.com:0", "example.com:1"}) {
    options.listen = listen;
    EXPECT_THAT(ComeraServer::Start(options, &clock_, &ids_,
                                    [](const absl::Status&) {}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("--insecure_allow_remote")))
        << listen;
  }
  for (const char* listen : {"127.0.0.1", ":1", "127.0.0.1:x", "", "a:70000"}) {
    options.listen = listen;
    EXPECT_THAT(
        ComeraServer::Start(options, &clock_, &ids_,
                            [](const absl::Status&) {}),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("host:port")))
        << listen;
  }
  options.listen = "0.0.0.0:0";
  options.security.insecure_allow_remote = true;
  EXPECT_OK(
      ComeraServer::Start(options, &clock_, &ids_, [](const absl::Status&) {}));
  // The other server's port is taken.
  options.listen = server_->address();
  EXPECT_THAT(
      ComeraServer::Start(options, &clock_, &ids_, [](const absl::Status&) {}),
      StatusIs(absl::StatusCode::kUnavailable));
}

TEST(PeerAddressesTest, AWorkerIsReachedWhereItCallsFrom) {
  PeerAddresses addresses(/*trusting=*/false);
  const absl::Time now = absl::FromUnixSeconds(1800000000);
  const auto accepts = [&](const std::string& announced,
                           const std::string& peer) {
    return addresses.Accepts("w", announced, peer, now);
  };
  EXPECT_TRUE(accepts("10.0.0.5:7500", "ipv4:10.0.0.5:40000"));
  EXPECT_TRUE(accepts("10.0.0.5:7500", "ipv6:[::ffff:10.0.0.5]:40000"));
  EXPECT_TRUE(accepts("[fd00::5]:7500", "ipv6:%5Bfd00:0::5%5D:40000"));
  EXPECT_TRUE(accepts("127.0.0.1:7500", "ipv4:127.0.0.1:40000"));
  EXPECT_TRUE(accepts("127.0.0.1:7500", "unix:/socket"));
  EXPECT_TRUE(accepts("", "ipv4:10.0.0.5:40000"));
  // The attacks: another machine, the coordinator's own ports, no address.
  EXPECT_FALSE(accepts("10.0.0.6:7500", "ipv4:10.0.0.5:40000"));
  EXPECT_FALSE(accepts("127.0.0.1:7400", "ipv4:10.0.0.5:40000"));
  EXPECT_FALSE(accepts("192.0.2.1:7500", "ipv4:127.0.0.1:40000"));
  EXPECT_FALSE(accepts("10.0.0.5:7500", ""));
  PeerAddresses trusting(/*trusting=*/true);
  EXPECT_TRUE(
      trusting.Accepts("w", "10.0.0.6:7500", "ipv4:10.0.0.5:40000", now));
}

TEST(PeerAddressesTest, ANameCountsOnceItIsKnownToLeadThere) {
  std::atomic<int> lookups{0};
  PeerAddresses addresses(false, [&](const std::string& name) {
    ++lookups;
    return name == "five" ? std::vector<std::string>{"10.0.0.5"}
                          : std::vector<std::string>();
  });
  const absl::Time now = absl::FromUnixSeconds(1800000000);
  const auto accepts = [&](const std::string& announced) {
    return addresses.Accepts("w", announced, "ipv4:10.0.0.5:40000", now);
  };
  while (!accepts("five:7500")) std::this_thread::yield();
  EXPECT_FALSE(accepts("six:7500"));
  while (lookups < 2) std::this_thread::yield();
  EXPECT_FALSE(accepts("six:7500"));
  EXPECT_TRUE(accepts("five:7500"));
  EXPECT_EQ(lookups, 2);
}

}  // namespace
}  // namespace comera::server
