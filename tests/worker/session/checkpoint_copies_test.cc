// Checks copies of training states in other workers' memory and in the store,
// and fetching them back.
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comera/v1/peer_service.grpc.pb.h"
#include "common/call_metadata.h"
#include "common/files.h"
#include "common/seal.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "worker/checkpoint/checkpoint_copier.h"
#include "worker/checkpoint/checkpoint_fetcher.h"
#include "worker/checkpoint/checkpoint_file.h"
#include "worker/checkpoint/checkpoint_shelf.h"
#include "worker/checkpoint/peer_server.h"
#include "worker/checkpoint/replica_cache.h"
#include "worker/checkpoint/stored_checkpoints.h"
#include "worker/files/path_below.h"
#include "worker/files/plain_file.h"
#include "worker/report/artifact_store.h"
#include "worker/trainer/state/checkpoint_name.h"

namespace comera::worker {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

MATCHER_P(IsOkAndHolds, inner, "") {
  return arg.ok() &&
         ::testing::ExplainMatchResult(inner, *arg, result_listener);
}

constexpr char kJob[] = "jobs/a";
constexpr absl::Duration kBound = absl::Seconds(20);

// Makes a file as the trainer writes it.
std::string State(const std::string& text) {
  return absl::StrCat(text, "\nsha256 ", Sha256Hex(text), "\n");
}

class CopiesTest : public ::testing::Test {
 protected:
  CopiesTest() {
    auto server = PeerServer::Start({}, &cache_, &folders_, &keys_);
    EXPECT_OK(server);
    server_ = *std::move(server);
    keys_.Learn(Answer("key", kJob, 1000, server_->address()));
    store_ = OpenDirectoryStore(folder_ + "/store");
    client_ = std::make_unique<PeerClient>(nullptr, &keys_);
  }

  ~CopiesTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // An answer of the coordinator that tells a worker its key, and lets it ask the
  // worker at `address`, whose key is `sealed_with`, for the job's states.
  static v1::SynchronizeResponse Answer(const std::string& key,
                                        const std::string& job, int64_t attempt,
                                        const std::string& address,
                                        const std::string& sealed_with = "key") {
    v1::PeerGrant grant;
    grant.set_job(job);
    grant.set_attempt(attempt);
    v1::SynchronizeResponse answer;
    answer.set_grant_key(key);
    v1::MemberAssignment* assignment = answer.add_desired();
    assignment->set_job(job);
    v1::Peer* peer = assignment->add_replicas();
    peer->set_address(address);
    peer->set_grant(
        Seal(sealed_with, kPeerGrantPurpose, grant.SerializeAsString()));
    return answer;
  }

  static std::string MakeFolder() {
    std::string folder = ::testing::TempDir() + "/copies-XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    return folder;
  }

  // The folder of the job's checkpoints on "this" machine.
  std::string Local() const { return folder_ + "/local/checkpoints"; }

  void Save(const std::string& folder, const CheckpointName& name,
            const std::string& contents) {
    ASSERT_OK(MakeDirectories(folder));
    ASSERT_OK(WriteFileAtomically(absl::StrCat(folder, "/", ToFileName(name)),
                                  contents));
  }

  v1::Peer Peer(const std::string& worker, const std::string& address) {
    v1::Peer peer;
    peer.set_worker(worker);
    peer.set_address(address);
    return peer;
  }

  v1::MemberAssignment Assignment() {
    v1::MemberAssignment assignment;
    assignment.set_job(kJob);
    *assignment.add_sources() = Peer("peer", server_->address());
    *assignment.add_sources() = Peer("gone", "127.0.0.1:1");
    return assignment;
  }

  CheckpointFetcher Fetcher() {
    StateFetchOptions options;
    options.start_wait = start_wait_;
    options.min_backoff = options.max_backoff = absl::Milliseconds(1);
    return CheckpointFetcher(options, {folder_ + "/local", "checkpoints"},
                             &memory_, client_.get(), store_.get(), nullptr);
  }

  FetchedCheckpoint Fetch() {
    auto fetched = Fetcher().FetchNewest(Assignment(), abandoned_);
    EXPECT_OK(fetched);
    return fetched.ok() ? *fetched : FetchedCheckpoint();
  }

  absl::StatusOr<FetchedCheckpoint> FetchStart(int64_t attempt, int64_t step) {
    v1::MemberAssignment assignment = Assignment();
    assignment.mutable_start()->set_attempt(attempt);
    assignment.mutable_start()->set_step(step);
    return Fetcher().FetchStart(assignment, abandoned_);
  }

  absl::Status Store(const std::string& name, const std::string& contents) {
    RETURN_IF_ERROR(WriteFileAtomically(folder_ + "/to_store", contents));
    ASSIGN_OR_RETURN(const PlainFile file,
                     PlainFile::Open({folder_, "to_store"}));
    return store_->PutFile(name, file, abandoned_);
  }

  absl::StatusOr<std::string> FromStore(const std::string& name,
                                        int64_t offset = 0) {
    std::string rest;
    RETURN_IF_ERROR(store_->Read(name, offset, abandoned_,
                                 [&](int64_t size, std::string_view data) {
                                   rest.append(data);
                                   EXPECT_LE(rest.size(), size);
                                   return absl::OkStatus();
                                 }));
    return rest;
  }

  absl::StatusOr<std::vector<std::string>> ListStore(
      const std::string& folder) {
    return store_->List(folder, abandoned_);
  }

  // Sends the contents as a file.
  absl::Status Put(PeerClient& client, const std::string& job,
                   const CheckpointName& name, const std::string& contents) {
    RETURN_IF_ERROR(WriteFileAtomically(folder_ + "/to_send", contents));
    ASSIGN_OR_RETURN(const CheckpointFile file,
                     CheckpointFile::Open({folder_, "to_send"}));
    return client.Put(server_->address(), job, name, file, Sha256Hex(contents),
                      {});
  }

  // Receives the rest of a file.
  absl::StatusOr<std::string> Get(PeerClient& client,
                                  const std::string& address,
                                  const StateKey& key, int64_t offset = 0,
                                  const TransferLimits& limits = {}) {
    std::string rest;
    int64_t size = -1;
    RETURN_IF_ERROR(client.Get(address, kJob, key, offset, limits,
                               [&](int64_t of, std::string_view data) {
                                 size = of;
                                 rest.append(data);
                                 return absl::OkStatus();
                               }));
    EXPECT_EQ(size, offset + static_cast<int64_t>(rest.size()));
    return rest;
  }

  const std::string folder_ = MakeFolder();
  absl::Duration start_wait_ = absl::Milliseconds(20);
  std::atomic<bool> abandoned_{false};
  PeerKeys keys_;
  // The cache of the peer, and that of this worker.
  ReplicaCache cache_{size_t{64} << 20};
  ReplicaCache memory_{size_t{64} << 20};
  JobFolders folders_{folder_ + "/peer"};
  std::unique_ptr<PeerServer> server_;
  std::unique_ptr<ArtifactStore> store_;
  std::unique_ptr<PeerClient> client_;
};

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
  EXPECT_THAT(worker.Get(address, "jobs/b", {1, 7}, 0, limits,
                         [](int64_t, std::string_view) {
                           return absl::OkStatus();
                         }),
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

TEST_F(CopiesTest, TheNewestWholeStateIsFetchedWhereverItLies) {
  EXPECT_EQ(Fetch().step, -1);
  Save(Local(), {10, false}, State("ten"));
  EXPECT_EQ(Fetch().from, "this disk");
  // On the other worker's disk, from a time when the job ran there.
  Save(folders_.Checkpoints(kJob).ToString(), {20, false, 1}, State("twenty"));
  EXPECT_EQ(Fetch().step, 20);
  ASSERT_OK(cache_.Put(kJob, {30, true, 1}, State("thirty")));
  const FetchedCheckpoint fetched = Fetch();
  EXPECT_EQ(fetched.step, 30);
  EXPECT_EQ(fetched.from, "worker peer");
  EXPECT_THAT(ReadFile(Local() + "/step-000000000030.attempt-1.snapshot"),
              IsOkAndHolds(State("thirty")));
  ASSERT_OK(Store("checkpoints/a/step-000000000040.attempt-1.checkpoint",
                  State("forty")));
  EXPECT_EQ(Fetch().from, "the store");
  EXPECT_EQ(Fetch().from, "this disk");  // by now
  ASSERT_OK(memory_.Put(kJob, {50, true, 1}, State("fifty")));
  EXPECT_EQ(Fetch().from, "this memory");
  // A later attempt, which began further back.
  ASSERT_OK(cache_.Put(kJob, {5, true, 2}, State("five")));
  EXPECT_EQ(Fetch().step, 5);
}

TEST_F(CopiesTest, Complaint12_DamagedStatesArePassedOver) {
  Save(Local(), {50, false}, State("fifty") + "x");
  Save(folders_.Checkpoints(kJob).ToString(), {40, false}, "junk");
  ASSERT_OK(Store("checkpoints/a/step-000000000030.checkpoint", "junk"));
  ASSERT_OK(cache_.Put(kJob, {20, false}, State("twenty")));
  EXPECT_EQ(Fetch().step, 20);
}

TEST_F(CopiesTest, TheNamedStateIsFetchedAndNoOther) {
  // What a cut-off attempt saved late, and what the same attempt saved before.
  Save(Local(), {90, false, 2}, State("late"));
  Save(Local(), {30, false, 3}, State("before"));
  ASSERT_OK(memory_.Put(kJob, {40, false, 2}, State("another attempt's")));
  ASSERT_OK(cache_.Put(kJob, {40, true, 3}, State("forty")));
  ASSERT_OK_AND_ASSIGN(const FetchedCheckpoint fetched, FetchStart(3, 40));
  EXPECT_EQ(fetched.step, 40);
  EXPECT_EQ(fetched.from, "worker peer");
  EXPECT_THAT(ReadFile(Local() + "/step-000000000040.attempt-3.checkpoint"),
              IsOkAndHolds(State("forty")));
  EXPECT_EQ(FetchStart(3, 40)->from, "this disk");
  EXPECT_EQ(FetchStart(2, 40)->from, "this memory");
  EXPECT_EQ(FetchStart(0, 90)->from, "this disk");
}

TEST_F(CopiesTest, TheNamedStateComesFromTheStoreToo) {
  ASSERT_OK(Store("checkpoints/a/step-000000000040.attempt-2.checkpoint",
                  State("another attempt's")));
  ASSERT_OK(Store("checkpoints/a/step-000000000040.attempt-3.checkpoint",
                  State("forty")));
  EXPECT_EQ(FetchStart(3, 40)->from, "the store");
  EXPECT_THAT(ReadFile(Local() + "/step-000000000040.attempt-3.checkpoint"),
              IsOkAndHolds(State("forty")));
}

TEST_F(CopiesTest, ANamedStateThatNobodyHasIsAnErrorThatSaysWhy) {
  Save(Local(), {40, false, 2}, State("another attempt's"));
  Save(Local(), {40, false, 3}, State("forty") + "x");
  Save(folders_.Checkpoints(kJob).ToString(), {50, false, 3}, State("fifty"));
  EXPECT_THAT(
      FetchStart(3, 40),
      StatusIs(absl::StatusCode::kNotFound,
               AllOf(HasSubstr("of step 40 saved by attempt 3"),
                     HasSubstr("this disk: damaged"),
                     HasSubstr("this memory: not there"),
                     HasSubstr("worker peer: there is no such checkpoint"),
                     HasSubstr("worker gone: "),
                     HasSubstr("the store: not there"))));
}

TEST_F(CopiesTest, ANamedStateThatIsDamagedEverywhereIsDataLoss) {
  v1::MemberAssignment assignment;
  assignment.set_job(kJob);
  assignment.mutable_start()->set_attempt(3);
  assignment.mutable_start()->set_step(40);
  Save(Local(), {40, false, 3}, "junk");
  EXPECT_THAT(Fetcher().FetchStart(assignment, abandoned_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("of step 40")));
  *assignment.add_sources() = Peer("peer", server_->address());
  std::filesystem::remove_all(Local());
  EXPECT_THAT(Fetcher().FetchStart(assignment, abandoned_),
              StatusIs(absl::StatusCode::kNotFound));
  Save(folders_.Checkpoints(kJob).ToString(), {40, false, 3}, "junk");
  EXPECT_THAT(Fetcher().FetchStart(assignment, abandoned_),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(CopiesTest, ADamagedCopyOfTheNamedStateIsPassedOver) {
  Save(folders_.Checkpoints(kJob).ToString(), {40, false, 3}, "junk");
  ASSERT_OK(Store("checkpoints/a/step-000000000040.attempt-3.checkpoint",
                  State("forty")));
  EXPECT_EQ(FetchStart(3, 40)->from, "the store");
}

// A worker that sends what the test says.
class FakePeer : public v1::PeerService::Service {
 public:
  using Writer = grpc::ServerWriter<v1::GetCheckpointResponse>;
  using Handler = std::function<grpc::Status(const v1::GetCheckpointRequest&,
                                             grpc::ServerContext&, Writer&)>;

  explicit FakePeer(Handler handler) : handler_(std::move(handler)) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }
  ~FakePeer() override { server_->Shutdown(); }

  const std::string& address() const { return address_; }

  static bool Send(Writer& writer, int64_t size, std::string_view data) {
    v1::GetCheckpointResponse response;
    response.set_size_bytes(size);
    response.set_data(std::string(data));
    return writer.Write(response);
  }

 private:
  grpc::Status GetCheckpoint(grpc::ServerContext* context,
                             const v1::GetCheckpointRequest* request,
                             Writer* writer) override {
    return handler_(*request, *context, *writer);
  }

  const Handler handler_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

TEST_F(CopiesTest, ATransferThatBreaksInTheMiddleGoesOnFromThere) {
  const std::string state = State(std::string(1000, 's'));
  std::vector<int64_t> offsets;
  FakePeer peer([&](const v1::GetCheckpointRequest& request,
                    grpc::ServerContext&, FakePeer::Writer& writer) {
    offsets.push_back(request.offset());
    EXPECT_EQ(request.attempt(), 3);
    FakePeer::Send(writer, static_cast<int64_t>(state.size()),
                   state.substr(request.offset(), 400));
    return request.offset() + 400 < static_cast<int64_t>(state.size())
               ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "broken")
               : grpc::Status::OK;
  });
  v1::MemberAssignment assignment;
  assignment.set_job(kJob);
  *assignment.add_sources() = Peer("flaky", peer.address());
  assignment.mutable_start()->set_attempt(3);
  assignment.mutable_start()->set_step(40);
  start_wait_ = kBound;
  ASSERT_OK_AND_ASSIGN(const FetchedCheckpoint fetched,
                       Fetcher().FetchStart(assignment, abandoned_));
  EXPECT_EQ(fetched.from, "worker flaky");
  EXPECT_THAT(offsets, ElementsAre(0, 400, 800));
  EXPECT_THAT(ReadFile(Local() + "/step-000000000040.attempt-3.checkpoint"),
              IsOkAndHolds(state));
}

TEST_F(CopiesTest, AWorkerOfAnEarlierVersionIsNotTakenForAnother) {
  FakePeer peer([&](const v1::GetCheckpointRequest&, grpc::ServerContext&,
                    FakePeer::Writer& writer) {
    // It knows neither sizes nor offsets nor attempts.
    FakePeer::Send(writer, 0, State("of whichever attempt"));
    return grpc::Status::OK;
  });
  EXPECT_THAT(Get(*client_, peer.address(), {3, 40}),
              StatusIs(absl::StatusCode::kUnimplemented));
}

TEST_F(CopiesTest, ATransferThatStandsStillIsGivenUp) {
  FakePeer peer([](const v1::GetCheckpointRequest&,
                   grpc::ServerContext& context, FakePeer::Writer& writer) {
    FakePeer::Send(writer, 100, "something");
    while (!context.IsCancelled()) std::this_thread::yield();
    return grpc::Status::CANCELLED;
  });
  TransferLimits limits;
  limits.idle = absl::Milliseconds(30);
  EXPECT_THAT(Get(*client_, peer.address(), {1, 40}, 0, limits),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("nothing has come for 30ms")));
}

TEST_F(CopiesTest, AnAbandonedTransferIsCancelledWhileItBlocks) {
  std::promise<void> begun;
  FakePeer peer([&](const v1::GetCheckpointRequest&,
                    grpc::ServerContext& context, FakePeer::Writer&) {
    begun.set_value();
    while (!context.IsCancelled()) std::this_thread::yield();
    return grpc::Status::CANCELLED;
  });
  v1::MemberAssignment assignment;
  assignment.set_job(kJob);
  *assignment.add_sources() = Peer("silent", peer.address());
  assignment.mutable_start()->set_step(40);
  auto fetched = std::async(std::launch::async, [&] {
    return Fetcher().FetchStart(assignment, abandoned_).status();
  });
  begun.get_future().wait();
  abandoned_ = true;
  EXPECT_THAT(fetched.get(), StatusIs(absl::StatusCode::kAborted));
}

class CopierTest : public CopiesTest {
 protected:
  CheckpointCopier::Task TaskOf(const CheckpointName& name,
                                const std::string& contents) {
    Save(Local(), name, contents);
    CheckpointCopier::Task task;
    task.job = kJob;
    task.name = name;
    task.path =
        PathBelow{folder_ + "/local", "checkpoints"}.Child(ToFileName(name));
    return task;
  }
};

TEST_F(CopierTest, WhatIsSavedIsCopiedAndMadeDurable) {
  std::promise<int64_t> durable;
  CheckpointCopier::Options options;
  options.on_stored = [&](const std::string&, const StateKey& key) {
    if (key.step == 30) durable.set_value(30);
  };
  CheckpointCopier copier(options, client_.get(), store_.get());
  for (int64_t step : {10, 20, 30}) {
    CheckpointCopier::Task task =
        TaskOf({step, false, 1}, State(absl::StrCat(step)));
    // A worker that does not exist delays nothing.
    task.replicas = {Peer("gone", "127.0.0.1:1"),
                     Peer("peer", server_->address())};
    task.durable = true;
    copier.Add(task);
    ASSERT_TRUE(copier.Flush(kBound));
  }
  EXPECT_EQ(durable.get_future().get(), 30);
  EXPECT_NE(cache_.Get(kJob, {1, 30}), nullptr);
  EXPECT_THAT(
      ListStore("checkpoints/a"),
      IsOkAndHolds(ElementsAre("step-000000000010.attempt-1.checkpoint",
                               "step-000000000020.attempt-1.checkpoint",
                               "step-000000000030.attempt-1.checkpoint")));
  EXPECT_THAT(FromStore("checkpoints/a/step-000000000030.attempt-1.checkpoint"),
              IsOkAndHolds(State("30")));
  // One of two has a copy, as far as that goes.
  EXPECT_THAT(copier.Troubles(), IsEmpty());
}

TEST_F(CopierTest, WhatOthersHaveStoredIsFoundAtTheStart) {
  for (const char* file :
       {"a/step-000000000050.attempt-1.checkpoint",
        "a/step-000000000040.attempt-2.checkpoint",
        "b/step-000000000060.attempt-1.checkpoint", "b/ended",
        "NOJOB/step-000000000060.attempt-1.checkpoint"}) {
    ASSERT_OK(Store(absl::StrCat("checkpoints/", file), State("x")));
  }
  std::promise<StoredStates> found;
  CheckpointCopier::Options options;
  options.store.on_listed = [&](StoredStates states) {
    found.set_value(std::move(states));
  };
  CheckpointCopier copier(options, client_.get(), store_.get());
  const StoredStates expected = {{"jobs/a", {{1, 50}, {2, 40}}},
                                 {"jobs/b", {{1, 60}}}};
  EXPECT_EQ(found.get_future().get(), expected);
}

TEST_F(CopierTest, WhatOthersStoreLaterIsFoundAtTheNextListing) {
  std::promise<void> listed, found;
  bool first = true, last = false;
  CheckpointCopier::Options options;
  options.store.relist = absl::Milliseconds(1);
  options.store.on_listed = [&](const StoredStates& states) {
    if (first) listed.set_value();
    first = false;
    if (states.empty() || last) return;
    last = true;
    found.set_value();
  };
  CheckpointCopier copier(options, client_.get(), store_.get());
  listed.get_future().get();
  ASSERT_OK(Store("checkpoints/b/step-000000000060.attempt-1.checkpoint",
                  State("x")));
  found.get_future().get();
}

TEST_F(CopierTest, OnlyWhatTheCoordinatorNamesIsDeletedFromTheStore) {
  CheckpointCopier copier({}, client_.get(), store_.get());
  // What somebody put there is left alone.
  ASSERT_OK(Store("checkpoints/a/notes", "x"));
  const auto add = [&](const CheckpointName& name) {
    CheckpointCopier::Task task = TaskOf(name, State("x"));
    task.durable = true;
    copier.Add(task);
    ASSERT_TRUE(copier.Flush(kBound));
  };
  add({500, false, 1});
  add({600, false, 1});
  add({10, false, 2});
  // What the first attempt saves late stays out.
  add({700, false, 1});
  EXPECT_THAT(ListStore("checkpoints/a"),
              IsOkAndHolds(
                  ElementsAre("notes", "step-000000000010.attempt-2.checkpoint",
                              "step-000000000500.attempt-1.checkpoint",
                              "step-000000000600.attempt-1.checkpoint")));
  copier.Expire(kJob, {1, 500});
  copier.Expire(kJob, {1, 800});
  ASSERT_TRUE(copier.Flush(kBound));
  EXPECT_THAT(ListStore("checkpoints/a"),
              IsOkAndHolds(
                  ElementsAre("notes", "step-000000000010.attempt-2.checkpoint",
                              "step-000000000600.attempt-1.checkpoint")));
}

TEST_F(CopierTest, CopiesThatDoNotFitAreATroubleWhileItLasts) {
  ReplicaCache small(size_t{1} << 20);
  ASSERT_OK_AND_ASSIGN(const auto server,
                       PeerServer::Start({}, &small, &folders_, &keys_));
  keys_.Learn(Answer("key", kJob, 1000, server->address()));
  int told = 0;
  CheckpointCopier::Options options;
  options.on_troubles = [&] { ++told; };
  CheckpointCopier copier(options, client_.get(), nullptr);
  const auto add = [&](int64_t step, size_t size) {
    CheckpointCopier::Task task =
        TaskOf({step, false, 4}, State(std::string(size, 'x')));
    task.replicas = {Peer("w2", server->address()),
                     Peer("peer", server_->address())};
    copier.Add(task);
    ASSERT_TRUE(copier.Flush(kBound));
  };
  add(10, 3 << 20);
  ASSERT_THAT(copier.Troubles(), SizeIs(1));
  const v1::MemberTrouble trouble = copier.Troubles()[0];
  EXPECT_EQ(trouble.job(), kJob);
  EXPECT_EQ(trouble.attempt(), 4);
  EXPECT_EQ(trouble.failure_class(), v1::CHECKPOINT_UNREACHABLE);
  EXPECT_EQ(trouble.message(),
            "copies of checkpoints do not fit into the memory of worker w2: "
            "3.0 MiB needed, 1.0 MiB there");
  EXPECT_EQ(told, 1);
  add(20, (3 << 20) + 100);
  EXPECT_EQ(copier.Troubles()[0].message(), trouble.message());
  EXPECT_EQ(told, 1);
  add(30, 100);
  EXPECT_THAT(copier.Troubles(), IsEmpty());
  EXPECT_EQ(told, 2);
  add(40, 3 << 20);
  EXPECT_THAT(copier.Troubles(), SizeIs(1));
  copier.Forget(kJob);
  EXPECT_THAT(copier.Troubles(), IsEmpty());
}

TEST_F(CopierTest, AStoreThatCannotBeWrittenToIsATrouble) {
  ASSERT_OK(WriteFileAtomically(folder_ + "/blocked", "a file"));
  const auto blocked = OpenDirectoryStore(folder_ + "/blocked/store");
  std::promise<void> stored;
  CheckpointCopier::Options options;
  options.on_stored = [&](const std::string&, const StateKey&) {
    stored.set_value();
  };
  options.store.retry_after = absl::Milliseconds(1);
  CheckpointCopier copier(options, client_.get(), blocked.get());
  CheckpointCopier::Task task = TaskOf({10, false, 1}, State("x"));
  task.durable = true;
  copier.Add(task);
  ASSERT_TRUE(copier.Flush(kBound));
  ASSERT_THAT(copier.Troubles(), SizeIs(1));
  EXPECT_THAT(copier.Troubles()[0].message(),
              HasSubstr("checkpoints do not reach the store"));
  // It is tried again, and arrives once the store is back.
  ASSERT_TRUE(std::filesystem::remove(folder_ + "/blocked"));
  stored.get_future().get();
  EXPECT_THAT(blocked->List("checkpoints/a", abandoned_),
              IsOkAndHolds(SizeIs(1)));
  EXPECT_THAT(copier.Troubles(), IsEmpty());
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

TEST_F(CopierTest, ALinkToAnotherJobsStatesIsNotCopied) {
  CheckpointCopier::Task task = TaskOf({40, false, 3}, State("secret"));
  std::filesystem::rename(Local(), folder_ + "/victim");
  std::filesystem::create_symlink(folder_ + "/victim", Local());
  CheckpointCopier copier({}, client_.get(), store_.get());
  task.replicas = {Peer("peer", server_->address())};
  task.durable = true;
  copier.Add(task);
  ASSERT_TRUE(copier.Flush(kBound));
  EXPECT_EQ(cache_.Get(kJob, {3, 40}), nullptr);
  EXPECT_THAT(ListStore("checkpoints/a"), IsOkAndHolds(IsEmpty()));
}

TEST_F(CopiesTest, NothingIsFetchedThroughALink) {
  ASSERT_OK(cache_.Put(kJob, {40, false, 3}, State("forty")));
  ASSERT_OK(MakeDirectories(folder_ + "/elsewhere"));
  ASSERT_OK(MakeDirectories(folder_ + "/local"));
  std::filesystem::create_symlink(folder_ + "/elsewhere", Local());
  EXPECT_THAT(FetchStart(3, 40), StatusIs(absl::StatusCode::kFailedPrecondition,
                                          HasSubstr(Local())));
  EXPECT_EQ(Fetch().step, -1);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/elsewhere"));
  // Nor is a state that lies behind it taken for this job's.
  Save(folder_ + "/elsewhere", {50, false, 3}, State("fifty"));
  EXPECT_FALSE(FetchStart(3, 50).ok());
  EXPECT_EQ(Fetch().step, -1);
}

TEST_F(CopiesTest, TheShelfTellsWhatIsWhere) {
  Save(folders_.Checkpoints(kJob).ToString(), {10, false, 5}, State("ten"));
  ASSERT_OK(MakeDirectories(folders_.Work("jobs/b").ToString()));
  ASSERT_OK(cache_.Put("jobs/c", {20, true, 6}, State("twenty")));
  CheckpointShelf shelf(&folders_, &cache_);
  shelf.ScanAll();
  shelf.AddStored("jobs/d", {1, 1});
  EXPECT_TRUE(shelf.SetStored({{kJob, {{5, 10}, {4, 700}}}}));
  EXPECT_FALSE(shelf.SetStored({{kJob, {{5, 10}, {4, 700}}}}));
  EXPECT_TRUE(shelf.AddStored(kJob, {5, 20}));
  EXPECT_FALSE(shelf.AddStored(kJob, {5, 20}));
  shelf.DropStored(kJob, {4, 700});
  shelf.DropStored("jobs/e", {4, 700});
  v1::SynchronizeRequest request;
  shelf.Fill(request.mutable_checkpoints());
  std::vector<std::string> told;
  for (const v1::HeldCheckpoint& held : request.checkpoints()) {
    told.push_back(absl::StrCat(held.job(), " ", held.attempt(), " ",
                                held.step(), " ",
                                v1::HeldCheckpoint::Place_Name(held.place())));
  }
  EXPECT_THAT(told, ::testing::UnorderedElementsAre(
                        "jobs/a 5 10 DISK", "jobs/a 5 10 DURABLE",
                        "jobs/a 5 20 DURABLE", "jobs/b 0 0 PLACE_UNSPECIFIED",
                        "jobs/c 6 20 MEMORY"));
}

TEST_F(CopiesTest, TheStoreHoldsWhatItWasGivenOrSaysSo) {
  ASSERT_OK(Store("checkpoints/a/one", "contents"));
  EXPECT_THAT(FromStore("checkpoints/a/one"), IsOkAndHolds("contents"));
  EXPECT_THAT(FromStore("checkpoints/a/two"),
              StatusIs(absl::StatusCode::kNotFound));
  for (const char* name :
       {"", "/etc/passwd", "../x", "a/../b", "a//b", ".x", "a b", "a/\n"}) {
    EXPECT_THAT(Store(name, "x"), StatusIs(absl::StatusCode::kInvalidArgument))
        << name;
  }
  ASSERT_OK(Store("checkpoints/a/three", "of a file"));
  EXPECT_THAT(FromStore("checkpoints/a/three", 3), IsOkAndHolds("a file"));
  EXPECT_THAT(FromStore("checkpoints/a/three", 10),
              StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(FromStore("checkpoints/a/four"),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_OK(store_->Delete("checkpoints/a/three", abandoned_));
  EXPECT_THAT(ListStore("checkpoints/a"), IsOkAndHolds(ElementsAre("one")));
  EXPECT_OK(store_->Delete("checkpoints/a/one", abandoned_));
  EXPECT_OK(store_->Delete("checkpoints/a/one", abandoned_));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/store/checkpoints/a"));
}

TEST_F(CopiesTest, OnlyOldLeftoversAreTidiedOutOfTheStore) {
  ASSERT_OK(Store("checkpoints/b/old", "x"));
  const std::string folder = folder_ + "/store/checkpoints/b/";
  for (const char* name : {"half.tmp.1.0", "new.tmp.1.0"}) {
    ASSERT_OK(WriteFileAtomically(folder + name, "x"));
  }
  for (const char* name : {"old", "half.tmp.1.0"}) {
    std::filesystem::last_write_time(
        folder + name,
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  }
  EXPECT_THAT(ListStore("checkpoints/b"), IsOkAndHolds(ElementsAre("old")));
  ASSERT_OK(store_->Tidy("checkpoints", absl::Hours(1), abandoned_));
  EXPECT_FALSE(std::filesystem::exists(folder + "half.tmp.1.0"));
  EXPECT_TRUE(std::filesystem::exists(folder + "new.tmp.1.0"));
  EXPECT_THAT(ListStore("checkpoints/b"), IsOkAndHolds(ElementsAre("old")));
  abandoned_ = true;
  EXPECT_THAT(Store("checkpoints/b/new", "x"),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(ListStore("checkpoints"), StatusIs(absl::StatusCode::kAborted));
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
