// Tests the line protocol of a serving process.
#include "worker/trainer/predict/serve.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// Answers each row with its own text.
class EchoPredictor : public Predictor {
 public:
  EchoPredictor() { served_.set_family("masked_lm"); }
  absl::Status failure;

 protected:
  absl::Status Answer(const v1::PredictRequest& request,
                      v1::PredictResponse* response) override {
    for (const v1::PredictRow& row : request.rows()) {
      response->add_predictions()->set_label(row.text());
    }
    return failure;
  }
};

// What Serve writes for `input`.
struct Served {
  absl::Status status;
  std::vector<std::string> lines;
};

Served ServeText(const std::string& input, Predictor* predictor) {
  int in[2], out[2];
  EXPECT_EQ(pipe2(in, O_CLOEXEC), 0);
  EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
  std::thread writer([&] {
    for (size_t at = 0; at < input.size();) {
      const ssize_t put = write(in[1], input.data() + at, input.size() - at);
      if (put < 0) break;
      at += static_cast<size_t>(put);
    }
    close(in[1]);
  });
  std::string text;
  std::thread reader([&] {
    char buffer[4096];
    for (ssize_t got; (got = read(out[0], buffer, sizeof(buffer))) > 0;) {
      text.append(buffer, static_cast<size_t>(got));
    }
  });
  Served served;
  served.status = Serve(predictor, in[0], out[1]);
  close(in[0]);
  close(out[1]);
  writer.join();
  reader.join();
  close(out[0]);
  served.lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  return served;
}

v1::PredictResponse Response(const std::string& line) {
  v1::PredictResponse response;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(line, &response).ok())
      << line;
  return response;
}

TEST(ServeTest, AnswersALineWithALine) {
  EchoPredictor predictor;
  const Served served = ServeText(
      "{\"rows\": [{\"text\": \"a\"}, {\"text\": \"b\\n\"}]}\n"
      "\r\n\n"
      "{\"rows\": []}\n"
      "{\"rows\": [{\"text\": \"last, without an end\"}]}",
      &predictor);
  EXPECT_OK(served.status);
  ASSERT_THAT(served.lines, SizeIs(4));
  EXPECT_THAT(served.lines[0], HasSubstr("masked_lm"));
  EXPECT_EQ(Response(served.lines[1]).predictions(1).label(), "b\n");
  EXPECT_EQ(Response(served.lines[2]).predictions_size(), 0);
  EXPECT_EQ(Response(served.lines[3]).predictions(0).label(),
            "last, without an end");
}

TEST(ServeTest, RefusedRequestsEndNothing) {
  EchoPredictor predictor;
  const Served served = ServeText(
      "nonsense\n{\"rows\": 1}\n{\"unknown\": 1}\n{\"top_k\": 1000}\n\xff\n" +
          std::string(100000, '[') + "\n{\"rows\": [{\"text\": \"x\"}]}\n",
      &predictor);
  EXPECT_OK(served.status);
  ASSERT_THAT(served.lines, SizeIs(8));
  for (int i = 1; i < 7; ++i) {
    EXPECT_NE(Response(served.lines[i]).error(), "") << served.lines[i];
  }
  EXPECT_EQ(Response(served.lines[7]).predictions(0).label(), "x");
}

TEST(ServeTest, ALineWithoutEndIsGivenUp) {
  EchoPredictor predictor;
  signal(SIGPIPE, SIG_IGN);
  const Served served =
      ServeText(std::string(kMaxRequestLine + (1 << 17), 'x'), &predictor);
  EXPECT_THAT(served.status, StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(ServeTest, ABrokenEngineEndsIt) {
  EchoPredictor predictor;
  predictor.failure = absl::InternalError("broken");
  const Served served = ServeText("{}\n{}\n", &predictor);
  EXPECT_THAT(served.status, StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(served.lines, SizeIs(1));
}

}  // namespace
}  // namespace comera::trainer
