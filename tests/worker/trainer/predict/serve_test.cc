// Tests the line protocol of a serving process.
#include "worker/trainer/predict/serve.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/clock.h"
#include "common/event.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/worker/trainer/generate/letter_tokenizer.h"
#include "tests/worker/trainer/generate/random_decoder.h"
#include "worker/trainer/generate/generator.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
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

// Would tell logits of a large vocabulary.
class WidePredictor : public EchoPredictor {
 public:
  explicit WidePredictor(const std::string& family) {
    served_.set_family(family);
    served_.set_max_length(512);
    if (family == "masked_lm") served_.set_mask_token("[MASK]");
    vocabulary_ = 50257;
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

// The worker gives up a process whose line is longer than it reads.
TEST(ServeTest, ATooLongAnswerIsARefusal) {
  EchoPredictor predictor;
  // A character of one byte may take six in an answer.
  const std::string text(12 << 20, '<');
  const Served served = ServeText(
      absl::StrCat("{\"number\": \"7\", \"rows\": [{\"text\": \"", text,
                   "\"}]}\n{\"number\": \"8\", \"rows\": []}\n"),
      &predictor);
  EXPECT_OK(served.status);
  ASSERT_THAT(served.lines, SizeIs(3));
  ASSERT_LE(served.lines[1].size(), kMaxAnswerLine);
  EXPECT_EQ(Response(served.lines[1]).number(), 7);
  EXPECT_THAT(Response(served.lines[1]).error(), HasSubstr("bytes"));
  EXPECT_EQ(Response(served.lines[2]).number(), 8);
  EXPECT_EQ(Response(served.lines[2]).error(), "");
}

TEST(ServeTest, OnlyLogitsThatFitAnAnswerAreComputed) {
  const int64_t most = (int64_t{1} << 21) / 50257;
  v1::PredictRequest rows;
  rows.set_logits(true);
  for (int64_t i = 0; i < most; ++i) rows.add_rows()->set_text("x");
  WidePredictor causal("causal_lm");
  EXPECT_OK(causal.Predict(rows));
  rows.add_rows()->set_text("x");
  EXPECT_THAT(causal.Predict(rows),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("logits: of 42 tokens")));
  rows.set_pseudo_loss(true);
  EXPECT_OK(causal.Predict(rows));
  rows.set_pseudo_loss(false);
  rows.set_logits(false);
  EXPECT_OK(causal.Predict(rows));

  // Each mask has logits, in both texts of a row.
  WidePredictor masked("masked_lm");
  v1::PredictRequest masks;
  masks.set_logits(true);
  v1::PredictRow* row = masks.add_rows();
  for (int64_t i = 0; i < most; ++i) row->mutable_text()->append("a [MASK]");
  EXPECT_OK(masked.Predict(masks));
  row->set_text_pair("[MASK]");
  EXPECT_THAT(masked.Predict(masks),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("logits: of 42 tokens")));

  // Whatever a classifier is asked, it tells none of a vocabulary.
  EchoPredictor other;
  EXPECT_OK(other.Predict(masks));
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

// Goes on by a second each time it is asked, and lets the test look at a
// moment.
class GatedClock : public Clock {
 public:
  absl::Time Now() override {
    if (++calls_ == gate_at) {
      reached.Notify();
      open.Wait();
    }
    return absl::UnixEpoch() + absl::Seconds(calls_);
  }

  int gate_at = 0;
  Event reached, open;

 private:
  int calls_ = 0;
};

// Echoes rows and continues texts.
class GeneratingPredictor : public EchoPredictor {
 public:
  GeneratingPredictor() {
    DecoderCase c;
    config_ = DecoderConfig(c, 40);
    parameters_ = DecoderParameters(c, config_);
    Generator::Options options;
    options.decoder.max_slots = 2;
    options.clock = &clock;
    auto made = Generator::Create(config_, parameters_.data(), options,
                                  &tokenizer_, backend_.get());
    EXPECT_OK(made);
    if (made.ok()) generator_ = *std::move(made);
  }
  absl::StatusOr<Generator*> generator() override { return generator_.get(); }

  GatedClock clock;

 private:
  LetterTokenizer tokenizer_{/*ends=*/false};
  ModelConfig config_;
  std::vector<float> parameters_;
  std::unique_ptr<kernels::Backend> backend_ = kernels::CreateCpuBackend({});
  std::unique_ptr<Generator> generator_;
};

std::string GenerateLine(int64_t number, int max_tokens) {
  return absl::StrCat("{\"number\": \"", number,
                      "\", \"generate\": {\"prompt\": \"ab\", "
                      "\"max_tokens\": ",
                      max_tokens, ", \"seed\": \"5\"}}\n");
}

TEST(ServeTest, ATextWithoutNumberIsAnsweredBeforeTheNextRequest) {
  GeneratingPredictor predictor;
  const Served served = ServeText(
      GenerateLine(0, 9) + "{\"rows\": [{\"text\": \"after\"}]}\n", &predictor);
  EXPECT_OK(served.status);
  ASSERT_GE(served.lines.size(), 3);
  for (size_t i = 1; i + 1 < served.lines.size(); ++i) {
    const v1::PredictResponse response = Response(served.lines[i]);
    EXPECT_TRUE(response.has_generated()) << served.lines[i];
    EXPECT_EQ(response.generated().finish() != 0, i + 2 == served.lines.size());
  }
  EXPECT_EQ(Response(served.lines.back()).predictions(0).label(), "after");
}

TEST(ServeTest, NumberedTextsGrowBesideEachOther) {
  GeneratingPredictor predictor;
  const Served served =
      ServeText(GenerateLine(7, 5) + GenerateLine(8, 11) + GenerateLine(9, 11) +
                    "{\"cancel\": \"9\"}\n" + GenerateLine(8, 3) +
                    "{\"number\": \"10\", \"rows\": [{\"text\": \"r\"}]}\n",
                &predictor);
  EXPECT_OK(served.status);
  std::map<int64_t, std::string> texts;
  std::map<int64_t, int> ends;
  std::vector<int64_t> order;
  int refused = 0, cancelled = 0;
  for (size_t i = 1; i < served.lines.size(); ++i) {
    const v1::PredictResponse response = Response(served.lines[i]);
    order.push_back(response.number());
    if (response.number() == 10) continue;
    if (response.number() == 9) {
      EXPECT_EQ(response.error(), "cancelled");
      ++cancelled;
      continue;
    }
    if (!response.error().empty()) {
      EXPECT_THAT(response.error(), HasSubstr("number: 8 is in use"));
      ++refused;
      continue;
    }
    texts[response.number()] += response.generated().text();
    ends[response.number()] += response.generated().finish() != 0 ? 1 : 0;
  }
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(cancelled, 1);
  EXPECT_THAT(ends, ElementsAre(Pair(7, 1), Pair(8, 1)));
  EXPECT_EQ(texts[8].substr(0, texts[7].size()), texts[7]);
  // The row waits for no text.
  EXPECT_EQ(order[2], 10);
}

TEST(ServeTest, ATextGrowsBetweenRequestsOfRows) {
  GeneratingPredictor predictor;
  std::string input = GenerateLine(7, 20);
  for (int number = 11; number <= 15; ++number) {
    absl::StrAppend(&input, "{\"number\": \"", number,
                    "\", \"rows\": [{\"text\": \"r\"}]}\n");
  }
  const Served served = ServeText(input, &predictor);
  EXPECT_OK(served.status);
  std::vector<int64_t> order;
  for (size_t i = 1; i < served.lines.size(); ++i) {
    const int64_t number = Response(served.lines[i]).number();
    if (order.empty() || order.back() != number) order.push_back(number);
  }
  EXPECT_THAT(order, ElementsAre(11, 7, 12, 7, 13, 7, 14, 7, 15, 7));
}

TEST(ServeTest, ACancelOfWhatHasEndedIsAnsweredByNoLine) {
  GeneratingPredictor predictor;
  // The text without a number ends after the other, and before the cancel.
  const Served served = ServeText(
      GenerateLine(7, 3) + GenerateLine(0, 20) + "{\"cancel\": \"7\"}\n",
      &predictor);
  EXPECT_OK(served.status);
  for (const std::string& line : served.lines) {
    EXPECT_THAT(line, Not(HasSubstr("error")));
  }
  EXPECT_EQ(Response(served.lines.back()).number(), 0);
}

TEST(ServeTest, RequestsAreReadWhileATextGrows) {
  GeneratingPredictor predictor;
  predictor.clock.gate_at = 4;  // in the step of the third token
  int in[2], out[2];
  ASSERT_EQ(pipe2(in, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(out, O_CLOEXEC), 0);
  const auto send = [&](const std::string& line) {
    ASSERT_EQ(write(in[1], line.data(), line.size()),
              static_cast<ssize_t>(line.size()));
  };
  absl::Status status;
  std::thread serving([&] {
    status = Serve(&predictor, in[0], out[1]);
    close(out[1]);
  });
  send(GenerateLine(1, 20));
  predictor.clock.reached.Wait();
  // What has ended, or never began, is answered by no line.
  send(
      "{\"number\": \"2\", \"rows\": [{\"text\": \"r\"}]}\n"
      "{\"cancel\": \"1\"}\n{\"cancel\": \"1\"}\n{\"cancel\": \"2\"}\n");
  predictor.clock.open.Notify();
  close(in[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = read(out[0], buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  serving.join();
  close(in[0]);
  close(out[0]);
  EXPECT_OK(status);
  const std::vector<std::string> lines =
      absl::StrSplit(text, '\n', absl::SkipEmpty());
  ASSERT_GE(lines.size(), 3);
  EXPECT_EQ(Response(lines[lines.size() - 2]).number(), 2);
  EXPECT_EQ(Response(lines.back()).number(), 1);
  EXPECT_EQ(Response(lines.back()).error(), "cancelled");
  for (size_t i = 1; i + 2 < lines.size(); ++i) {
    EXPECT_EQ(Response(lines[i]).number(), 1);
    EXPECT_EQ(Response(lines[i]).generated().finish(), 0);
  }
}

TEST(ServeTest, EndsWhenNobodyReads) {
  signal(SIGPIPE, SIG_IGN);
  GeneratingPredictor predictor;
  predictor.clock.gate_at = 2;  // in the step of the first token
  int in[2], out[2];
  ASSERT_EQ(pipe2(in, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(out, O_CLOEXEC), 0);
  absl::Status status;
  std::thread serving([&] { status = Serve(&predictor, in[0], out[1]); });
  const std::string line = GenerateLine(1, 20);
  ASSERT_EQ(write(in[1], line.data(), line.size()),
            static_cast<ssize_t>(line.size()));
  predictor.clock.reached.Wait();
  close(out[0]);
  predictor.clock.open.Notify();
  serving.join();  // although its input is open
  EXPECT_OK(status);

  // Likewise while it waits for requests.
  ASSERT_EQ(pipe2(out, O_CLOEXEC), 0);
  EchoPredictor echo;
  std::thread waiting([&] { status = Serve(&echo, in[0], out[1]); });
  char first;
  ASSERT_EQ(read(out[0], &first, 1), 1);
  close(out[0]);
  waiting.join();
  EXPECT_OK(status);
  for (const int descriptor : {in[0], in[1], out[1]}) close(descriptor);
}

TEST(ServeTest, OtherModelsGenerateNothing) {
  EchoPredictor predictor;
  GeneratingPredictor generating;
  const Served served = ServeText(
      GenerateLine(3, 5) + "{\"cancel\": \"3\"}\n{\"rows\": []}\n", &predictor);
  EXPECT_OK(served.status);
  ASSERT_THAT(served.lines, SizeIs(3));
  EXPECT_EQ(Response(served.lines[1]).error(),
            "generate: for causal_lm, not masked_lm");
  EXPECT_EQ(Response(served.lines[1]).number(), 3);
  const Served both = ServeText(
      "{\"generate\": {}, \"rows\": [{\"text\": \"r\"}]}\n"
      "{\"generate\": {\"prompt\": \"a\", \"top_p\": 2}}\n",
      &generating);
  ASSERT_THAT(both.lines, SizeIs(3));
  EXPECT_THAT(Response(both.lines[1]).error(), HasSubstr("rows: "));
  EXPECT_THAT(Response(both.lines[2]).error(), HasSubstr("top_p: 2"));
}

}  // namespace
}  // namespace comera::trainer
