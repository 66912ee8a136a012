// Checks which training state a job goes on from, and that it is fetched whole
// wherever it lies.
#include "worker/checkpoint/checkpoint_fetcher.h"

#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "comera/v1/peer_service.grpc.pb.h"
#include "comera/v1/worker_service.pb.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/worker/session/checkpoint_copies_fixture.h"
#include "worker/checkpoint/peer_client.h"

namespace comera::worker {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace comera::worker
