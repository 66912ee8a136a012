// Runs `comera generate` in this process, with a shell script in place of
// comera-trainer and with a fake worker.

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/main/cli.h"
#include "comera/v1/model_service.grpc.pb.h"
#include "comera/v1/predict_service.grpc.pb.h"
#include "common/call_metadata.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/client/fake_training_service.h"

namespace comera::client {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

// Keeps the request in request.json, and answers by its prompt.
constexpr char kTrainer[] = R"(#!/bin/sh
say() { printf '%s\n' "$1"; }
case $* in *masked*) texts=0 ;; *) texts=2 ;; esac
say "{\"family\": \"causal_lm\", \"maxGenerations\": $texts}"
read -r line
say "$line" >"${0%/*}/request.json"
piece() { say "{\"generated\": {\"text\": \"$1\"}}"; }
last() {
  figures='"promptTokens": 3, "generatedTokens": 5, "firstTokenSeconds": 0.5'
  figures="$figures, \"generationSeconds\": 2"
  say "{\"generated\": {\"text\": \"$1\", \"finish\": \"STOP\", $figures}}"
}
case $line in
  *die*) piece half; say 'comera-trainer: no room' >&2; exit 1 ;;
  *refuse*) say '{"error": "top_k: too large"}' ;;
  *sleep*) piece half; exec sleep 100 ;;
  *evil*) last 'a\u001b[31mb\r\tc\nd' ;;
  *lines*) last 'one\n' ;;
  *) piece 'Hello,'; last ' world' ;;
esac
read -r line
)";

// A coordinator's tickets, which tell for what they were made.
class FakeTickets : public v1::ModelService::Service {
 public:
  grpc::Status CreateTicket(grpc::ServerContext* context,
                            const v1::CreateTicketRequest* request,
                            v1::CreateTicketResponse* response) override {
    response->set_ticket(
        absl::StrCat("comera-ticket_", request->model(), "@",
                     request->worker()));
    token = MetadataOf(*context, "authorization");
    return grpc::Status::OK;
  }

  std::string token;
};

// A worker whose texts a test makes up.
class FakeWorker : public v1::PredictService::Service {
 public:
  FakeWorker() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    address = "127.0.0.1:" + std::to_string(port);
  }
  ~FakeWorker() override { Stop(); }
  // Cancels running calls and waits for their ends.
  void Stop() { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status LoadModel(grpc::ServerContext* context,
                         const v1::LoadModelRequest* request,
                         v1::ServedModel* response) override {
    Keep(*context);
    response->set_name(request->name());
    return grpc::Status::OK;
  }
  grpc::Status Generate(
      grpc::ServerContext* context, const v1::GenerateRequest* request,
      grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    Keep(*context);
    return generate(*request, context, writer);
  }

  std::function<grpc::Status(const v1::GenerateRequest&, grpc::ServerContext*,
                             grpc::ServerWriter<v1::GenerateResponse>*)>
      generate;
  std::string address;
  // Whatever the callers have sent beside their requests.
  std::string metadata;

 private:
  void Keep(const grpc::ServerContext& context) {
    for (const auto& [key, value] : context.client_metadata()) {
      absl::StrAppend(&metadata, std::string(key.data(), key.size()), "=",
                      std::string(value.data(), value.size()), "\n");
    }
  }

  std::unique_ptr<grpc::Server> server_;
};

// Interrupts this process when the first text is written.
class InterruptingBuffer : public std::stringbuf {
 protected:
  int sync() override {
    if (!std::exchange(done_, true)) raise(SIGINT);
    return 0;
  }

 private:
  bool done_ = false;
};

struct Outcome {
  int code;
  std::string out;
  std::string err;
};

class GenerateCliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(
        std::getenv("TEST_TMPDIR"), "/",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    for (const char* model : {"/model", "/masked"}) {
      std::filesystem::create_directories(folder_ + model);
      std::ofstream(folder_ + model + "/config.json") << "{}";
    }
    std::ofstream(folder_ + "/trainer") << kTrainer;
    std::filesystem::permissions(folder_ + "/trainer",
                                 std::filesystem::perms::owner_all);
    service_.list_workers = [this](const v1::ListWorkersRequest&,
                                   v1::ListWorkersResponse* response) {
      char host[256] = {};
      gethostname(host, sizeof(host) - 1);
      v1::WorkerSummary* one = response->add_workers();
      one->set_name("workers/one");
      one->set_connected(true);
      one->set_host(host);
      one->set_peer_address(worker_.address);
      return grpc::Status::OK;
    };
    service_.others = {&tickets_};
    server_ = service_.Start();
  }
  void TearDown() override { service_.Shutdown(); }

  // Runs `comera generate ARGS` with `input` as standard input; a terminal if
  // it is null.
  Outcome Run(std::vector<std::string> args, const char* input = nullptr,
              bool terminal = false, std::streambuf* buffer = nullptr) {
    std::ostringstream text, err;
    std::ostream out(buffer == nullptr ? text.rdbuf() : buffer);
    Environment environment;
    environment.out = &out;
    environment.err = &err;
    environment.out_is_terminal = terminal;
    environment.in_is_terminal = input == nullptr;
    environment.server = server_;
    environment.token = token_;
    environment.working_folder = folder_;
    environment.state_folder = folder_ + "/state";
    environment.binary_folder = "/nonexistent";
    const int kept = dup(STDIN_FILENO);
    if (input != nullptr) {
      int ends[2];
      EXPECT_EQ(pipe(ends), 0);
      EXPECT_EQ(write(ends[1], input, strlen(input)),
                static_cast<ssize_t>(strlen(input)));
      close(ends[1]);
      dup2(ends[0], STDIN_FILENO);
      close(ends[0]);
    }
    args.insert(args.begin(), "generate");
    service_.Settle();
    const int code = RunCli(args, environment);
    service_.Settle();
    dup2(kept, STDIN_FILENO);
    close(kept);
    return {code, text.str(), err.str()};
  }
  Outcome Local(std::vector<std::string> args, const char* input = nullptr,
                bool terminal = false, std::streambuf* buffer = nullptr) {
    args.insert(args.begin(), folder_ + "/model");
    args.insert(args.end(), {"--trainer-binary", folder_ + "/trainer"});
    return Run(args, input, terminal, buffer);
  }
  Outcome Remote(std::vector<std::string> args,
                 std::streambuf* buffer = nullptr) {
    args.insert(args.begin(), "jobs/a/models/m");
    args.push_back("--remote");
    return Run(args, nullptr, false, buffer);
  }

  // Returns the request that the script got.
  std::string Asked() {
    const auto text = ReadFile(folder_ + "/request.json");
    EXPECT_OK(text);
    return text.value_or("");
  }

  FakeWorker worker_;
  FakeTickets tickets_;
  FakeTrainingService service_;
  std::string folder_, server_, token_;
};

// The attack: whoever runs a worker, or passes for one, keeps what it is sent.
TEST_F(GenerateCliTest, AFalseWorkerGetsATicketAndNeverTheToken) {
  worker_.generate = [](const v1::GenerateRequest&, grpc::ServerContext*,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) {
    v1::GenerateResponse piece;
    piece.set_text("harvested");
    piece.set_finish(v1::GenerateResponse::STOP);
    writer->Write(piece);
    return grpc::Status::OK;
  };
  token_ = "comera_admins_secret";
  const Outcome done = Remote({"Say:"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(tickets_.token, "Bearer comera_admins_secret");
  EXPECT_THAT(
      worker_.metadata,
      HasSubstr("comera-ticket=comera-ticket_jobs/a/models/m@workers/one"));
  EXPECT_THAT(worker_.metadata, Not(HasSubstr("authorization")));
  EXPECT_THAT(worker_.metadata, Not(HasSubstr("secret")));
}

TEST_F(GenerateCliTest, TheTextComesWithItsFiguresOnStandardError) {
  const Outcome done = Local({"Say:", "--seed", "7"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out, "Hello, world\n");
  EXPECT_EQ(done.err,
            "3 tokens of prompt, 5 generated (stop), 2.0 tokens/s, the first "
            "after 0.50 s, seed 7\n");
  EXPECT_EQ(Asked(),
            "{\"generate\":{\"prompt\":\"Say:\",\"maxTokens\":128,\"seed\":"
            "\"7\"}}\n");
}

TEST_F(GenerateCliTest, AllFlagsAreSent) {
  ASSERT_EQ(Local({"", "--max-tokens", "5", "--temperature", "0", "--top-k",
                   "4", "--top-p", "0.5", "--seed", "18446744073709551615",
                   "--stop", "a", "--stop", "b c"})
                .code,
            0);
  EXPECT_EQ(Asked(),
            "{\"generate\":{\"maxTokens\":5,\"temperature\":0,\"topK\":4,"
            "\"topP\":0.5,\"seed\":\"18446744073709551615\",\"stop\":[\"a\","
            "\"b c\"]}}\n");
  // Without a seed every text is another.
  const Outcome one = Local({"x"}), two = Local({"x"}), three = Local({"x"});
  EXPECT_TRUE(one.err != two.err || two.err != three.err);
}

TEST_F(GenerateCliTest, ThePromptMayComeFromStandardInput) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{}, std::vector<std::string>{"-"}}) {
    EXPECT_EQ(Local(args, "two\n\"lines\"\n").code, 0);
    EXPECT_THAT(Asked(), HasSubstr(R"("prompt":"two\n\"lines\"",)"));
  }
  EXPECT_EQ(Local({"-"}, "no end").code, 0);
  EXPECT_THAT(Asked(), HasSubstr(R"("prompt":"no end",)"));
  EXPECT_EQ(Local({"-"}, "").code, 0);
  EXPECT_THAT(Asked(), Not(HasSubstr("prompt")));
  const Outcome bad = Local({"-"}, "\xff\n");
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("UTF-8"));
  const Outcome none = Local({});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("prompt: none is given"));
}

TEST_F(GenerateCliTest, PiecesAreLinesOfJson) {
  const Outcome done = Local({"Say:", "-o", "json"});
  EXPECT_EQ(done.out,
            "{\"text\":\"Hello,\"}\n"
            "{\"text\":\" world\",\"finish\":\"STOP\",\"prompt_tokens\":3,"
            "\"generated_tokens\":5,\"first_token_seconds\":0.5,"
            "\"generation_seconds\":2}\n");
}

TEST_F(GenerateCliTest, TextsDoNotControlTheTerminal) {
  EXPECT_EQ(Local({"evil"}, nullptr, true).out, "a [31mb\n\tc\nd\n");
  EXPECT_EQ(Local({"evil"}, nullptr, false).out, "a\x1b[31mb\r\tc\nd\n");
  // A text that ends its line gets no other end.
  EXPECT_EQ(Local({"lines"}).out, "one\n");
}

TEST_F(GenerateCliTest, WrongFlagsAreNamed) {
  const std::pair<std::string, std::string> wrong[] = {
      {"--max-tokens", "0"},
      {"--max-tokens", "65537"},
      {"--temperature", "-1"},
      {"--temperature", "nan"},
      {"--temperature", "warm"},
      {"--top-k", "-1"},
      {"--top-k", "2147483648"},
      {"--top-p", "0"},
      {"--top-p", "1.1"},
      {"--seed", "x"},
      {"--seed", "-1"},
      {"--stop", ""},
      {"--stop", std::string(257, 'x')}};
  for (const auto& [flag, value] : wrong) {
    const Outcome done = Local({"x", flag, value});
    EXPECT_EQ(done.code, 2) << flag << " " << value;
    EXPECT_THAT(done.err, StartsWith("comera: " + flag + ": ")) << value;
    EXPECT_THAT(done.out, IsEmpty());
  }
  const Outcome words = Local({"two", "words"});
  EXPECT_EQ(words.code, 2);
  EXPECT_THAT(words.err, HasSubstr("quotes"));
}

TEST_F(GenerateCliTest, ErrorsOfTheModelEndTheLine) {
  const Outcome refused = Local({"refuse"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(refused.err, "comera: top_k: too large\n");
  const Outcome died = Local({"die"});
  EXPECT_EQ(died.code, 1);
  EXPECT_EQ(died.out, "half\n");
  EXPECT_EQ(died.err, "comera: no room\n");
  const Outcome masked =
      Run({folder_ + "/masked", "x", "--trainer-binary", folder_ + "/trainer"});
  EXPECT_EQ(masked.code, 1);
  EXPECT_THAT(masked.err, HasSubstr("causal_lm"));
}

TEST_F(GenerateCliTest, CtrlCEndsTheText) {
  InterruptingBuffer out;
  const Outcome done = Local({"sleep"}, nullptr, false, &out);
  EXPECT_EQ(done.code, 130);
  EXPECT_EQ(out.str(), "half\n");
  EXPECT_EQ(done.err, "comera: interrupted\n");
}

TEST_F(GenerateCliTest, AWorkerAnswers) {
  worker_.generate = [](const v1::GenerateRequest& request,
                        grpc::ServerContext*, auto* writer) {
    v1::GenerateResponse piece;
    piece.set_text(absl::StrCat(request.name(), " ", request.prompt()));
    writer->Write(piece);
    piece.set_text("!");
    piece.set_finish(v1::GenerateResponse::LENGTH);
    piece.set_generated_tokens(1);
    writer->Write(piece);
    return grpc::Status::OK;
  };
  const Outcome done = Remote({"Say:"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out, "jobs/a/models/m Say:!\n");
  EXPECT_THAT(done.err, MatchesRegex("0 tokens of prompt, 1 generated "
                                     "\\(length\\), the first after 0.00 s, "
                                     "seed [0-9]+\n"));
}

TEST_F(GenerateCliTest, AWorkerAtAStrangeAddressIsNotCalled) {
  // The socket of somebody who waits for tokens.
  std::string folder = "/tmp/comera-XXXXXX";  // socket names are short
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/s";
  const int trap = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof(name.sun_path));
  memcpy(name.sun_path, path.c_str(), path.size() + 1);
  ASSERT_EQ(bind(trap, reinterpret_cast<sockaddr*>(&name), sizeof(name)), 0)
      << path;
  ASSERT_EQ(listen(trap, 1), 0);
  for (const std::string& address :
       {"unix:" + path, "unix://" + path, "dns:///" + worker_.address,
        "ipv4:" + worker_.address}) {
    worker_.address = address;
    const Outcome refused = Remote({"x"});
    EXPECT_NE(refused.code, 0);
    EXPECT_THAT(refused.err, HasSubstr("which is not host:port"));
  }
  EXPECT_EQ(accept(trap, nullptr, nullptr), -1) << "it was called";
  close(trap);
  std::filesystem::remove_all(folder);
}

TEST_F(GenerateCliTest, AWorkersErrorsAreTold) {
  std::atomic<bool> begins{false};
  std::atomic<int> calls{0};
  worker_.generate = [&](const v1::GenerateRequest&, grpc::ServerContext*,
                         auto* writer) {
    ++calls;
    v1::GenerateResponse piece;
    piece.set_text("half");
    if (begins) writer->Write(piece);
    return grpc::Status(begins ? grpc::StatusCode::UNAVAILABLE
                               : grpc::StatusCode::INVALID_ARGUMENT,
                        "top_k: no");
  };
  const Outcome refused = Remote({"x"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(refused.err, "comera: top_k: no\n");
  begins = true;
  calls = 0;
  const Outcome broken = Remote({"x"});
  EXPECT_EQ(broken.code, 3);
  EXPECT_EQ(broken.out, "half\n");
  // What has begun is not begun again.
  EXPECT_EQ(calls, 1);
  worker_.generate = [](const v1::GenerateRequest&, grpc::ServerContext*,
                        auto*) { return grpc::Status::OK; };
  EXPECT_THAT(Remote({"x"}).err, HasSubstr("does not end the text"));
}

TEST_F(GenerateCliTest, CtrlCEndsAWorkersText) {
  bool cancelled = false;
  worker_.generate = [&](const v1::GenerateRequest&,
                         grpc::ServerContext* context, auto* writer) {
    v1::GenerateResponse piece;
    piece.set_text("half");
    while (writer->Write(piece)) {
    }
    cancelled = context->IsCancelled();
    return grpc::Status::OK;
  };
  InterruptingBuffer out;
  const Outcome done = Remote({"x"}, &out);
  EXPECT_EQ(done.code, 130);
  EXPECT_THAT(out.str(), StartsWith("half"));
  worker_.Stop();
  EXPECT_TRUE(cancelled);
}

}  // namespace
}  // namespace comera::client
