// Texts that a worker generates for callers of the coordinator, over real gRPC.
#include <unistd.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comera/v1/model_service.grpc.pb.h"
#include "comera/v1/predict_service.grpc.pb.h"
#include "common/call_metadata.h"
#include "gmock/gmock.h"
#include "tests/server/daemon/server_fixture.h"

namespace comera::server {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string ThisMachine() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

// The port at which a worker serves models.
class ModelPort : public v1::PredictService::Service {
 public:
  using Writer = grpc::ServerWriter<v1::GenerateResponse>;
  using Generator = std::function<grpc::Status(
      grpc::ServerContext&, const v1::GenerateRequest&, Writer&)>;

  explicit ModelPort(Generator generator) : generator_(std::move(generator)) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~ModelPort() override { server_->Shutdown(std::chrono::system_clock::now()); }

  const std::string& address() const { return address_; }

  grpc::Status Generate(grpc::ServerContext* context,
                        const v1::GenerateRequest* request,
                        Writer* writer) override {
    return generator_(*context, *request, *writer);
  }

 private:
  const Generator generator_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

grpc::Status TwoPieces(grpc::ServerContext&, const v1::GenerateRequest& request,
                       ModelPort::Writer& writer) {
  v1::GenerateResponse piece;
  piece.set_text(request.prompt() + ", ");
  writer.Write(piece);
  piece.set_text("world");
  piece.set_finish(v1::GenerateResponse::LENGTH);
  piece.set_generated_tokens(2);
  writer.Write(piece);
  return grpc::Status::OK;
}

class TryGenerateTest : public ServerFixture {
 protected:
  TryGenerateTest() {
    models_ = v1::ModelService::NewStub(channel_);
    model_ = FinishedModel();
  }
  ~TryGenerateTest() override { models_.reset(); }

  std::string FinishedModel() {
    Worker trained{"trainer"};
    const std::string name = Create(TestSpec(1)).name();
    RunAll(trained);
    v1::MemberStatus& member = trained.ranks[0];
    member.mutable_result()->set_outcome(v1::TARGET_MET);
    v1::Artifact& model = *member.mutable_model();
    model.set_name(name + "/models/final");
    const std::string weights(100, 'w');
    *model.add_files() = Describe("model.safetensors", weights);
    EXPECT_TRUE(Upload(model.name(), 1, model.files(0), weights).ok());
    member.set_phase(v1::MemberStatus::EXITED);
    Sync(trained);
    Sync(trained);
    EXPECT_EQ(Get(name).state(), v1::SUCCEEDED);
    return model.name();
  }

  void AddServer(const std::string& id, const std::string& address,
                 const std::string& host = ThisMachine()) {
    Worker worker{id};
    worker.address = address;
    worker.host = host;
    Sync(worker);
  }

  v1::GenerateRequest Request() const {
    v1::GenerateRequest request;
    request.set_name(model_);
    request.set_prompt("Hello");
    return request;
  }
  grpc::Status Generate(const v1::GenerateRequest& request, std::string* text) {
    const auto context = Context();
    const auto reader = models_->TryGenerate(context.get(), request);
    v1::GenerateResponse piece;
    while (reader->Read(&piece)) *text += piece.text();
    last_ = piece;
    return reader->Finish();
  }
  grpc::Status Generate(const v1::GenerateRequest& request) {
    std::string text;
    const grpc::Status status = Generate(request, &text);
    EXPECT_EQ(text, "");
    return status;
  }

  std::unique_ptr<v1::ModelService::Stub> models_;
  std::string model_;
  v1::GenerateResponse last_;
};

TEST_F(TryGenerateTest, StreamsWhatAWorkerAdds) {
  std::string ticket;
  ModelPort port([&](auto& context, auto& request, auto& writer) {
    const auto& metadata = context.client_metadata();
    EXPECT_EQ(metadata.count("authorization"), 0u);
    const auto found = metadata.find(kTicketMetadata);
    if (found != metadata.end()) {
      ticket.assign(found->second.data(), found->second.size());
    }
    return TwoPieces(context, request, writer);
  });
  AddServer("w1", port.address());
  std::string text;
  const grpc::Status status = Generate(Request(), &text);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(text, "Hello, world");
  EXPECT_EQ(last_.finish(), v1::GenerateResponse::LENGTH);
  EXPECT_EQ(last_.generated_tokens(), 2);
  EXPECT_THAT(ticket, StartsWith("comera-ticket_"));
}

TEST_F(TryGenerateTest, WhatCannotBeGeneratedIsRefused) {
  grpc::Status status = Generate(Request());
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("no connected worker"));
  // The loopback address of another machine.
  AddServer("w1", "127.0.0.1:1", "elsewhere");
  EXPECT_EQ(Generate(Request()).error_code(), StatusCode::FAILED_PRECONDITION);

  v1::GenerateRequest request = Request();
  request.set_name("jobs/none/models/final");
  EXPECT_EQ(Generate(request).error_code(), StatusCode::NOT_FOUND);
  request.set_name("models/x");
  EXPECT_EQ(Generate(request).error_code(), StatusCode::INVALID_ARGUMENT);
  request = Request();
  request.set_max_tokens(513);
  status = Generate(request);
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("at most 512"));
  request = Request();
  request.set_prompt(std::string(8193, 'x'));
  EXPECT_EQ(Generate(request).error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(TryGenerateTest, AnotherWorkerIsAskedWhereOneCannot) {
  int asked = 0;
  ModelPort busy([&](auto&, auto&, auto&) {
    ++asked;
    return grpc::Status(StatusCode::RESOURCE_EXHAUSTED,
                        "two models are in use");
  });
  AddServer("w1", busy.address());
  EXPECT_EQ(Generate(Request()).error_code(), StatusCode::RESOURCE_EXHAUSTED);
  ModelPort port(TwoPieces);
  AddServer("w2", port.address());
  std::string text;
  const grpc::Status status = Generate(Request(), &text);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(text, "Hello, world");
  EXPECT_EQ(asked, 2);
}

TEST_F(TryGenerateTest, AWorkersRefusalIsNotTheCoordinators) {
  // The worker's own token has ended, and it sends details.
  ModelPort refusing([](auto&, auto&, auto&) {
    return grpc::Status(StatusCode::UNAUTHENTICATED, "who are you?",
                        "leader: evil:1");
  });
  AddServer("w1", refusing.address());
  const grpc::Status status = Generate(Request());
  EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "workers/w1: who are you?");
  EXPECT_THAT(status.error_details(), Not(HasSubstr("evil")));
}

TEST_F(TryGenerateTest, ATextEndsWithItsLastPiece) {
  std::promise<void> ended;
  ModelPort port([&](auto& context, auto&, auto& writer) {
    v1::GenerateResponse piece;
    piece.set_text("all");
    piece.set_finish(v1::GenerateResponse::STOP);
    writer.Write(piece);
    // A worker that goes on nevertheless.
    piece.set_text(" and more");
    while (!context.IsCancelled() && writer.Write(piece)) {
    }
    ended.set_value();
    return grpc::Status::OK;
  });
  AddServer("w1", port.address());
  std::string text;
  EXPECT_TRUE(Generate(Request(), &text).ok());
  EXPECT_EQ(text, "all");
  ended.get_future().wait();
}

TEST_F(TryGenerateTest, ATextThatBreaksOffIsNotBegunAgain) {
  int asked = 0;
  const auto breaks = [&](auto&, auto&, auto& writer) {
    ++asked;
    v1::GenerateResponse piece;
    piece.set_text("Hel");
    writer.Write(piece);
    return grpc::Status(StatusCode::UNAVAILABLE, "the model's process ended");
  };
  ModelPort one(breaks), other(breaks);
  AddServer("w1", one.address());
  AddServer("w2", other.address());
  std::string text;
  EXPECT_EQ(Generate(Request(), &text).error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(text, "Hel");
  EXPECT_EQ(asked, 1);
}

TEST_F(TryGenerateTest, AReaderWhoGoesEndsTheTextAndFreesItsPlace) {
  // Texts without end, of which the server takes four of one user.
  ModelPort port([](auto& context, auto&, auto& writer) {
    v1::GenerateResponse piece;
    piece.set_text("x");
    while (!context.IsCancelled() && writer.Write(piece)) {
    }
    return grpc::Status::CANCELLED;
  });
  AddServer("w1", port.address());
  struct Text {
    std::unique_ptr<grpc::ClientContext> context = Context();
    std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader;
  };
  std::vector<Text> texts(4);
  v1::GenerateResponse piece;
  for (Text& text : texts) {
    text.reader = models_->TryGenerate(text.context.get(), Request());
    ASSERT_TRUE(text.reader->Read(&piece));
  }
  EXPECT_EQ(Generate(Request()).error_code(), StatusCode::RESOURCE_EXHAUSTED);
  texts[0].context->TryCancel();
  EXPECT_EQ(texts[0].reader->Finish().error_code(), StatusCode::CANCELLED);
  // The place is free when the coordinator has noticed.
  Text again;
  bool begun = false;
  while (!begun) {
    again = Text();
    again.reader = models_->TryGenerate(again.context.get(), Request());
    begun = again.reader->Read(&piece);
    if (begun) break;
    ASSERT_EQ(again.reader->Finish().error_code(),
              StatusCode::RESOURCE_EXHAUSTED);
  }
  // The server ends while texts run, one of which its reader does not read.
  StopServer();
  for (size_t i = 1; i < texts.size(); ++i) {
    while (texts[i].reader->Read(&piece)) {
    }
    EXPECT_FALSE(texts[i].reader->Finish().ok());
  }
  while (again.reader->Read(&piece)) {
  }
  EXPECT_FALSE(again.reader->Finish().ok());
  StartServer();
}

}  // namespace
}  // namespace comera::server
