// Checks what a worker keeps for others in its memory, and to whom it gives
// what.
#include "worker/checkpoint/peer_server.h"

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "comera/v1/peer_service.grpc.pb.h"
#include "comera/v1/worker_service.pb.h"
#include "common/call_metadata.h"
#include "common/files.h"
#include "common/seal.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/worker/session/checkpoint_copies_fixture.h"
#include "worker/checkpoint/checkpoint_shelf.h"
#include "worker/checkpoint/peer_client.h"
#include "worker/checkpoint/peer_keys.h"
#include "worker/checkpoint/replica_cache.h"
#include "worker/trainer/state/checkpoint_name.h"

namespace comera::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST_F(CopiesTest, ACopyComesBackWhole) {
  // Larger than one piece.
  const std::string state = State(std::string(3 << 20, 'w'));
  ASSERT_OK(Put(*client_, kJob, {40, true, 3}, state));
  ASSERT_OK_AND_ASSIGN(const auto names,
                       client_->List(server_->address(), kJob, kBound));
  ASSERT_THAT(names, SizeIs(1));
  EXPECT_TRUE(names[0].snapshot);
  EXPECT_EQ(names[0].attempt, 3);
  ASSERT_OK_AND_ASSIGN(const std::string back,
                       Get(*client_, server_->address(), {3, 40}));
  EXPECT_EQ(back, state);
  for (const StateKey& other : {StateKey{3, 41}, StateKey{4, 40}}) {
    EXPECT_THAT(Get(*client_, server_->address(), other),
                StatusIs(absl::StatusCode::kNotFound));
  }
}

TEST_F(CopiesTest, ATransferGoesOnFromAnyOffset) {
  const std::string state = State(std::string(3 << 20, 'w'));
  const auto size = static_cast<int64_t>(state.size());
  // From memory, and from disk.
  ASSERT_OK(cache_.Put(kJob, {40, false, 1}, state));
  Save(folders_.Checkpoints(kJob).ToString(), {50, false, 1}, state);
  for (int64_t step : {40, 50}) {
    for (int64_t offset : {int64_t{1}, int64_t{1} << 20, size}) {
      ASSERT_OK_AND_ASSIGN(
          const std::string rest,
          Get(*client_, server_->address(), {1, step}, offset));
      EXPECT_EQ(rest, state.substr(offset));
    }
    EXPECT_THAT(Get(*client_, server_->address(), {1, step}, size + 1),
                StatusIs(absl::StatusCode::kOutOfRange));
    EXPECT_THAT(Get(*client_, server_->address(), {1, step}, -1),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST_F(CopiesTest, StrangersAreRefused) {
  const std::string& address = server_->address();
  PeerKeys others;
  PeerClient stranger(nullptr, &others);
  const auto refused = StatusIs(absl::StatusCode::kUnauthenticated);
  // No grant, and one that is sealed with another key.
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Put(stranger, kJob, {1, false}, State("x")), refused);
    EXPECT_THAT(stranger.List(address, kJob, kBound), refused);
    EXPECT_THAT(Get(stranger, address, {0, 1}), refused);
    others.Learn(Answer("", kJob, 1000, address, "guess"));
  }
  // The key changes, and grants by the one before are still good.
  keys_.Learn(Answer("guess", kJob, 1000, "elsewhere"));
  EXPECT_OK(stranger.List(address, kJob, kBound));
  EXPECT_OK(client_->List(address, kJob, kBound));
  keys_.Learn(Answer("third", kJob, 1000, "elsewhere"));
  EXPECT_OK(stranger.List(address, kJob, kBound));
  EXPECT_THAT(client_->List(address, kJob, kBound), refused);
}

// The attack: a worker of one job lists, reads and plants states of others.
TEST_F(CopiesTest, AGrantIsForOneJobAndUpToItsAttempt) {
  const std::string& address = server_->address();
  ASSERT_OK(cache_.Put("jobs/b", {7, false, 1}, State("secret")));
  PeerKeys keys;
  PeerClient worker(nullptr, &keys);
  keys.Learn(Answer("", kJob, 2, address));
  EXPECT_OK(worker.List(address, kJob, kBound));
  // The grant for its own job, shown for another.
  v1::SynchronizeResponse moved = Answer("", kJob, 2, address);
  moved.mutable_desired(0)->set_job("jobs/b");
  keys.Learn(moved);
  const auto refused = StatusIs(absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(worker.List(address, "jobs/b", kBound), refused);
  const TransferLimits limits;
  EXPECT_THAT(
      worker.Get(address, "jobs/b", {1, 7}, 0, limits,
                 [](int64_t, std::string_view) { return absl::OkStatus(); }),
      refused);
  EXPECT_THAT(Put(worker, "jobs/b", {9, false, 2}, State("planted")), refused);
  // A state of a later attempt, which would be the next to start from.
  EXPECT_THAT(Put(worker, kJob, {9, false, 3}, State("planted")),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_OK(Put(worker, kJob, {9, false, 2}, State("own")));
  // Once the next attempt is there, the earlier one is over.
  ASSERT_OK(client_->List(address, kJob, kBound));
  EXPECT_THAT(worker.List(address, kJob, kBound),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(Put(worker, kJob, {10, false, 2}, State("late")),
              StatusIs(absl::StatusCode::kAborted));
}

TEST_F(CopiesTest, MalformedCopiesAreRefused) {
  // No grant is for such a job.
  EXPECT_THAT(Put(*client_, "../x", {1, false}, State("x")),
              StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_THAT(Put(*client_, kJob, {-1, false}, State("x")),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Put(*client_, kJob, {1, false, -1}, State("x")),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Put(*client_, kJob, {1, false}, "no state"),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(client_->List(server_->address(), "jobs/../..", kBound),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(cache_.Jobs(), IsEmpty());
}

// A call of PutCheckpoint under way.
struct OpenPut {
  grpc::ClientContext context;
  v1::PutCheckpointResponse response;
  std::unique_ptr<grpc::ClientWriter<v1::PutCheckpointRequest>> writer;
};

// A worker that has another one's memory in mind. Its calls end after a minute,
// so that no test hangs.
class HostileWorkerTest : public CopiesTest {
 protected:
  void StartSmall(absl::Duration idle) {
    PeerServer::Options options;
    options.idle = idle;
    ASSERT_OK_AND_ASSIGN(
        small_server_, PeerServer::Start(options, &small_, &folders_, &keys_));
    // What is not read stays with the server, however fast the line is.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    stub_ = v1::PeerService::NewStub(grpc::CreateCustomChannel(
        small_server_->address(), grpc::InsecureChannelCredentials(),
        arguments));
  }

  static void Prepare(grpc::ClientContext* context, const std::string& job) {
    context->set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(1)));
    if (job.empty()) return;
    v1::PeerGrant grant;
    grant.set_job(job);
    grant.set_attempt(1000);
    context->AddMetadata(kPeerGrantMetadata, Seal("key", kPeerGrantPurpose,
                                                  grant.SerializeAsString()));
  }

  // Announces a state, and sends this part of it.
  std::unique_ptr<OpenPut> Announce(const std::string& job,
                                    const std::string& state, size_t part) {
    auto put = std::make_unique<OpenPut>();
    Prepare(&put->context, job);
    put->writer = stub_->PutCheckpoint(&put->context, &put->response);
    v1::PutCheckpointRequest request;
    v1::PeerCheckpoint& header = *request.mutable_header();
    header.set_job(job);
    header.set_step(1);
    header.set_size_bytes(static_cast<int64_t>(state.size()));
    header.set_sha256(Sha256Hex(state));
    put->writer->Write(request);
    request.set_data(state.substr(0, part));
    put->writer->Write(request);
    return put;
  }

  grpc::StatusCode Send(const std::string& job, const std::string& state) {
    const auto put = Announce(job, state, state.size());
    put->writer->WritesDone();
    return put->writer->Finish().error_code();
  }

  ReplicaCache small_{size_t{1} << 20};
  std::unique_ptr<PeerServer> small_server_;
  std::unique_ptr<v1::PeerService::Stub> stub_;
};

// The attack: streams without a grant that send nothing held a thread each.
TEST_F(HostileWorkerTest, AStrangerThatSaysNothingIsRefused) {
  StartSmall(absl::Minutes(10));
  OpenPut put;
  Prepare(&put.context, "");
  put.writer = stub_->PutCheckpoint(&put.context, &put.response);
  EXPECT_EQ(put.writer->Finish().error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
}

// The attack: states that are announced and left unfinished hold any amount of
// memory.
TEST_F(HostileWorkerTest, UnfinishedStatesHaveABudget) {
  StartSmall(absl::Minutes(10));
  const std::string state = State(std::string(500 << 10, 's'));
  const auto first = Announce("jobs/b", state, 400 << 10);
  const auto second = Announce("jobs/c", state, 400 << 10);
  // Until both have arrived.
  const absl::Time end = absl::Now() + absl::Seconds(50);
  grpc::StatusCode code = grpc::StatusCode::OK;
  while (code == grpc::StatusCode::OK && absl::Now() < end) {
    code = Send(kJob, state);
  }
  EXPECT_EQ(code, grpc::StatusCode::RESOURCE_EXHAUSTED);
  // The same job's next state takes the place of the one before.
  while ((code = Send("jobs/b", state)) != grpc::StatusCode::OK &&
         absl::Now() < end) {
  }
  EXPECT_EQ(code, grpc::StatusCode::OK);
  EXPECT_EQ(first->writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(Send(kJob, state), grpc::StatusCode::OK);
  second->context.TryCancel();
  second->writer->Finish();
}

TEST_F(HostileWorkerTest, WhoeverStandsStillIsCancelled) {
  StartSmall(absl::Milliseconds(200));
  const std::string state = State(std::string(500 << 10, 's'));
  const auto put = Announce("jobs/b", state, 1000);
  EXPECT_EQ(put->writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

// The attack: copies that have made room for others stayed in memory for
// readers who take nothing.
TEST_F(HostileWorkerTest, AJobsStatesHaveAFewReaders) {
  StartSmall(absl::Minutes(10));
  ASSERT_EQ(Send(kJob, State(std::string(900 << 10, 's'))),
            grpc::StatusCode::OK);
  struct Read {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::GetCheckpointResponse>> reader;
  };
  v1::GetCheckpointRequest request;
  request.set_job(kJob);
  request.set_step(1);
  v1::GetCheckpointResponse part;
  std::vector<std::unique_ptr<Read>> reads;
  for (int i = 0; i < 9; ++i) {
    reads.push_back(std::make_unique<Read>());
    Prepare(&reads.back()->context, kJob);
    reads.back()->reader =
        stub_->GetCheckpoint(&reads.back()->context, request);
    const bool begun = reads.back()->reader->Read(&part);
    EXPECT_EQ(begun, i < 8);
  }
  EXPECT_EQ(reads.back()->reader->Finish().error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  reads.pop_back();
  for (const auto& read : reads) {
    read->context.TryCancel();
    read->reader->Finish();
  }
}

// A member of this job leaves a link to another job's checkpoints in the place
// of its own.
TEST_F(CopiesTest, ALinkToAnotherJobsStatesIsNotServed) {
  const std::string victim = folders_.Checkpoints("jobs/victim").ToString();
  Save(victim, {40, false, 3}, State("secret"));
  ASSERT_OK(MakeDirectories(folders_.Work(kJob).ToString()));
  const std::string own = folders_.Checkpoints(kJob).ToString();
  std::filesystem::create_symlink(victim, own);
  const auto held = [&] {
    CheckpointShelf shelf(&folders_, &cache_);
    shelf.Scan(kJob);
    v1::SynchronizeRequest request;
    shelf.Fill(request.mutable_checkpoints());
    return request.checkpoints_size() == 1 ? request.checkpoints(0).step() : -1;
  };
  for (const bool whole_folder : {true, false}) {
    EXPECT_THAT(client_->List(server_->address(), kJob, kBound),
                IsOkAndHolds(IsEmpty()));
    EXPECT_THAT(Get(*client_, server_->address(), {3, 40}),
                StatusIs(absl::StatusCode::kNotFound));
    EXPECT_EQ(held(), 0);
    if (!whole_folder) break;
    // The same with a link to one state.
    std::filesystem::remove(own);
    ASSERT_OK(MakeDirectories(own));
    const std::string file = "/" + ToFileName({40, false, 3});
    std::filesystem::create_symlink(victim + file, own + file);
  }
}

TEST_F(CopiesTest, NothingGoesToOtherMachinesUnencrypted) {
  PeerServer::Options options;
  for (const char* host : {"192.0.2.1", "worker.example", "2001:db8::1"}) {
    options.host = host;
    EXPECT_THAT(PeerServer::Start(options, &cache_, &folders_, &keys_),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("--insecure_peers")))
        << host;
  }
  for (const char* address : {"192.0.2.1:1", "[2001:db8::1]:1"}) {
    EXPECT_THAT(client_->List(address, kJob, absl::Milliseconds(1)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("--insecure_peers")))
        << address;
  }
  // Where the operator allows it, the call is made.
  PeerClient insecure(nullptr, &keys_, /*insecure=*/true);
  EXPECT_THAT(insecure.List("192.0.2.1:1", kJob, absl::Milliseconds(1)),
              Not(StatusIs(absl::StatusCode::kInvalidArgument)));
}

}  // namespace
}  // namespace comera::worker
