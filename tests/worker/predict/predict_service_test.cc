// Calls PredictService over gRPC and leaves, or does not read.

#include "worker/predict/predict_service.h"

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/predict/served_models_fixture.h"

namespace comera::worker {
namespace {

class PredictServiceTest : public ServedModelsFixture {
 protected:
  // One call at a time is served, so that another one is refused for as long as
  // the first has not ended.
  void Serve(const PredictServiceImpl::Options& options) {
    options_.most_calls = 1;
    Create();
    service_ = std::make_unique<PredictServiceImpl>(models_.get(), options);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(service_.get());
    served_ = builder.BuildAndStart();
    grpc::ChannelArguments arguments;
    // The client takes little before it reads.
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 65536);
    // A message that is too long would end its call.
    arguments.SetMaxReceiveMessageSize(-1);
    stub_ = v1::PredictService::NewStub(grpc::CreateCustomChannel(
        "127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials(),
        arguments));
  }
  void TearDown() override {
    if (models_ != nullptr) models_->Stop();
    if (served_ != nullptr) served_->Shutdown();
  }

  static std::unique_ptr<grpc::ClientContext> Context() {
    auto context = std::make_unique<grpc::ClientContext>();
    context->AddMetadata(kTicketMetadata, "comera-ticket_good-a");
    return context;
  }

  grpc::Status Load(grpc::ClientContext* context) {
    v1::LoadModelRequest request;
    request.set_name("jobs/j/models/a");
    v1::ServedModel served;
    return stub_->LoadModel(context, request, &served);
  }

  // Returns what becomes of a call of `time` once it is not refused.
  grpc::StatusCode AwaitPlace(absl::Duration time = absl::Seconds(20)) {
    const absl::Time end = absl::Now() + absl::Seconds(60);
    grpc::StatusCode code;
    do {
      const auto context = Context();
      context->set_deadline(absl::ToChronoTime(absl::Now() + time));
      code = Load(context.get()).error_code();
    } while (code == grpc::StatusCode::RESOURCE_EXHAUSTED && absl::Now() < end);
    return code;
  }

  std::unique_ptr<PredictServiceImpl> service_;
  std::unique_ptr<grpc::Server> served_;
  std::unique_ptr<v1::PredictService::Stub> stub_;
};

// A call of Predict with an answer of a megabyte.
class LargeAnswer {
 public:
  LargeAnswer(v1::PredictService::Stub* stub,
              std::unique_ptr<grpc::ClientContext> context)
      : context_(std::move(context)) {
    v1::PredictRequest request;
    request.set_name("jobs/j/models/a");
    request.add_rows()->set_text("large");
    call_ = stub->AsyncPredict(context_.get(), request, &events_);
  }
  ~LargeAnswer() {
    context_->TryCancel();
    events_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (events_.Next(&tag, &ok)) {
    }
  }

  // Waits until the answer begins to arrive.
  void Await() {
    call_->ReadInitialMetadata(this);
    Next();
  }
  // Reads the answer.
  grpc::StatusCode Read() {
    v1::PredictResponse response;
    grpc::Status status;
    call_->Finish(&response, &status, this);
    Next();
    if (status.ok()) {
      EXPECT_EQ(response.predictions(0).label().size(), size_t{1} << 20);
    }
    return status.error_code();
  }

 private:
  void Next() {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(events_.Next(&tag, &ok));
  }

  const std::unique_ptr<grpc::ClientContext> context_;
  grpc::CompletionQueue events_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::PredictResponse>> call_;
};

// The attack: a worker, or whoever passes for one, collects the tokens of those
// who ask it. This one does not even pass them on.
TEST_F(PredictServiceTest, TokensAreRefusedUnread) {
  Serve(PredictServiceImpl::Options());
  const int asked = store_.asked;
  for (const bool has_ticket : {false, true}) {
    const auto context =
        has_ticket ? Context() : std::make_unique<grpc::ClientContext>();
    context->AddMetadata("authorization", "Bearer comera_admin");
    EXPECT_EQ(Load(context.get()).error_code(),
              grpc::StatusCode::UNAUTHENTICATED);
  }
  EXPECT_EQ(store_.asked, asked);
}

TEST_F(PredictServiceTest, AnswersThatAreNotReadKeepNoThread) {
  PredictServiceImpl::Options options;
  options.most_threads = 2;
  options.most_waiting = 0;
  Serve(options);
  std::vector<std::unique_ptr<LargeAnswer>> unread;
  for (int i = 0; i < 6; ++i) {
    unread.push_back(std::make_unique<LargeAnswer>(stub_.get(), Context()));
    unread.back()->Await();
    // What ends the call on the worker may take a moment longer.
    EXPECT_EQ(AwaitPlace(), grpc::StatusCode::OK);
  }
  // They can still be read.
  EXPECT_EQ(unread[0]->Read(), grpc::StatusCode::OK);
}

TEST_F(PredictServiceTest, AnswersThatAreNotReadEndAfterAWhile) {
  PredictServiceImpl::Options options;
  options.read_within = absl::Milliseconds(200);
  Serve(options);
  LargeAnswer unread(stub_.get(), Context());
  unread.Await();
  // Waits for the end of all calls.
  served_->Shutdown();
  EXPECT_NE(unread.Read(), grpc::StatusCode::OK);
}

TEST_F(PredictServiceTest, TheOldestOfTooManyUnreadAnswersEnd) {
  PredictServiceImpl::Options options;
  // Two answers, each of them as a message and as it is sent.
  options.most_unread_bytes = int64_t{5} << 20;
  Serve(options);
  LargeAnswer first(stub_.get(), Context());
  first.Await();
  ASSERT_EQ(AwaitPlace(), grpc::StatusCode::OK);
  LargeAnswer second(stub_.get(), Context());
  second.Await();
  ASSERT_EQ(AwaitPlace(), grpc::StatusCode::OK);
  LargeAnswer third(stub_.get(), Context());
  // An answer that is read has been counted.
  EXPECT_EQ(third.Read(), grpc::StatusCode::OK);
  EXPECT_EQ(first.Read(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(second.Read(), grpc::StatusCode::OK);
}

TEST_F(PredictServiceTest, TextsThatAreNotReadEndSoonAfterTheirTime) {
  PredictServiceImpl::Options options;
  options.most_generation_time = absl::Seconds(1);
  options.cancel_after = absl::Milliseconds(200);
  Serve(options);
  ASSERT_TRUE(Load(Context().get()).ok());
  const auto context = Context();
  v1::GenerateRequest request;
  request.set_name("jobs/j/models/a");
  request.set_prompt("flood");
  const auto reader = stub_->Generate(context.get(), request);
  while (!Has("flooded")) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(AwaitPlace(), grpc::StatusCode::OK);
  // The client, which is still there, may read what it has.
  v1::GenerateResponse piece;
  while (reader->Read(&piece)) {
  }
  EXPECT_FALSE(reader->Finish().ok());
}

// A client that reads is told why its text ends.
TEST_F(PredictServiceTest, TheTimeOfATextIsLimited) {
  PredictServiceImpl::Options options;
  options.most_generation_time = absl::Milliseconds(200);
  Serve(options);
  const auto context = Context();
  v1::GenerateRequest request;
  request.set_name("jobs/j/models/a");
  request.set_prompt("sleep");
  const auto reader = stub_->Generate(context.get(), request);
  v1::GenerateResponse piece;
  EXPECT_FALSE(reader->Read(&piece));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(PredictServiceTest, WhoCancelsWhileAModelLoadsKeepsNoPlace) {
  Serve({});
  Make("hold");
  const auto context = Context();
  std::thread leaver([&] {
    EXPECT_EQ(Load(context.get()).error_code(), grpc::StatusCode::CANCELLED);
  });
  while (!Has("started")) absl::SleepFor(absl::Milliseconds(1));
  context->TryCancel();
  leaver.join();
  EXPECT_EQ(AwaitPlace(absl::Milliseconds(50)),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  std::filesystem::remove(Mark("hold"));
  EXPECT_EQ(AwaitPlace(), grpc::StatusCode::OK);
}

TEST_F(PredictServiceTest, WhoCancelsAPredictionKeepsNoPlace) {
  Serve({});
  const auto context = Context();
  std::thread leaver([&] {
    v1::PredictRequest request;
    request.set_name("jobs/j/models/a");
    request.add_rows()->set_text("sleep");
    v1::PredictResponse response;
    EXPECT_EQ(stub_->Predict(context.get(), request, &response).error_code(),
              grpc::StatusCode::CANCELLED);
  });
  while (!Has("asleep")) absl::SleepFor(absl::Milliseconds(1));
  context->TryCancel();
  leaver.join();
  EXPECT_EQ(AwaitPlace(), grpc::StatusCode::OK);
}

}  // namespace
}  // namespace comera::worker
