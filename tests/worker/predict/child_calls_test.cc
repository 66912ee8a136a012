// Runs calls at the same time through one shell script that answers, stays
// silent, is told to stop, or dies.

#include "worker/predict/child_calls.h"

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

// Functions of the scripts: `next` reads a request into $n (its number, or that
// of the one to cancel), $p (its prompt) and $line; `piece`, `last`, `row` and
// `refuse` answer the request with this number.
constexpr char kFunctions[] = R"(
next() {
  read -r line || exit 0
  n=${line#*\"number\":\"}
  case $line in *\"cancel\"*) n=cancel\ ${line#*\"cancel\":\"} ;; esac
  n=${n%%\"*}
  p=${line#*\"prompt\":\"}
  p=${p%%\"*}
}
piece() { echo "{\"number\":$1,\"generated\":{\"text\":\"$2\"}}"; }
last() {
  echo "{\"number\":$1,\"generated\":{\"text\":\"$2\",\"finish\":\"LENGTH\",\
\"generatedTokens\":7}}"
}
row() { echo "{\"number\":$1,\"predictions\":[{\"label\":\"$2\"}]}"; }
refuse() { echo "{\"number\":$1,\"error\":\"$2\"}"; }
)";

absl::Time Soon() { return absl::Now() + absl::Seconds(20); }

class ChildCallsTest : public ::testing::Test {
 protected:
  void Start(const std::string& script, int max_generations = 4) {
    auto child = ModelChild::Start(
        {"/bin/sh", "-c", absl::StrCat(kFunctions, script)}, {}, {});
    ASSERT_OK(child);
    calls_ = std::make_unique<ChildCalls>(*std::move(child), max_generations);
  }

  // Returns the pieces of a text, joined by "|", its last with " END".
  absl::StatusOr<std::string> Generate(
      const std::string& prompt,
      const std::function<bool()>& on_piece = nullptr,
      const std::function<bool()>& gone = nullptr,
      absl::Time deadline = Soon()) {
    v1::GenerateRequest request;
    request.set_prompt(prompt);
    std::string text;
    const absl::Status status = calls_->Generate(
        request, deadline, gone, [&](const v1::GenerateResponse& piece) {
          absl::StrAppend(&text, text.empty() ? "" : "|", piece.text());
          if (piece.finish() != v1::GenerateResponse::FINISH_UNSPECIFIED) {
            EXPECT_EQ(piece.finish(), v1::GenerateResponse::LENGTH);
            EXPECT_EQ(piece.generated_tokens(), 7);
            absl::StrAppend(&text, " END");
          }
          return on_piece == nullptr || on_piece();
        });
    if (!status.ok()) return status;
    return text;
  }

  absl::StatusOr<std::string> Predict(
      absl::Time deadline = Soon(),
      const std::function<bool()>& gone = nullptr) {
    v1::PredictRequest request;
    request.add_rows()->set_text("x");
    auto response = calls_->Predict(request, deadline, gone);
    if (!response.ok()) return response.status();
    EXPECT_EQ(response->number(), 0);
    return response->predictions(0).label();
  }

  std::unique_ptr<ChildCalls> calls_;
};

TEST_F(ChildCallsTest, InterleavedAnswersFindTheirCallers) {
  Start(R"(
    next; a=$n; x=$p; next; b=$n; y=$p
    piece "$b" "$y"1; piece "$a" "$x"1; last "$b" "$y"2; last "$a" "$x"2
    next)");
  auto one = std::async(std::launch::async, [&] { return Generate("one"); });
  ASSERT_OK_AND_ASSIGN(const std::string two, Generate("two"));
  // Pieces that have not been taken are joined.
  EXPECT_THAT(two, AnyOf("two1|two2 END", "two1two2 END"));
  EXPECT_THAT(*one.get(), AnyOf("one1|one2 END", "one1one2 END"));
}

TEST_F(ChildCallsTest, ASlowReaderHoldsUpNobody) {
  Start(R"(next; piece "$n" a; t=$n; next; row "$n" label; last "$t" b; next)");
  absl::StatusOr<std::string> label;
  ASSERT_OK_AND_ASSIGN(const std::string text, Generate("x", [&] {
                         if (!label.ok()) label = Predict();
                         return true;
                       }));
  EXPECT_EQ(text, "a|b END");
  ASSERT_OK(label);
  EXPECT_EQ(*label, "label");
}

TEST_F(ChildCallsTest, WhoLeavesStopsHisTextAndLateWordsAreNobodys) {
  Start(R"(
    next; a=$n; piece "$a" x; next; told=$n; piece "$a" late
    refuse "$a" cancelled; next; last "$n" "$told"; next)");
  EXPECT_THAT(Generate("first", [] { return false; }),
              StatusIs(absl::StatusCode::kCancelled));
  ASSERT_OK_AND_ASSIGN(const std::string second, Generate("second"));
  EXPECT_EQ(second, "cancel 1 END");
  // The process owes nothing, however long nobody asks it.
  EXPECT_EQ(calls_->silence(absl::Now() + absl::Hours(1)),
            absl::ZeroDuration());
}

// A cancel may cross the end of its text, which then ends it.
TEST_F(ChildCallsTest, ATextThatEndsBeforeItsCancelIsReadOwesNothing) {
  Start(R"(
    next; a=$n; piece "$a" x; next; last "$a" done
    next; last "$n" text; next)");
  EXPECT_THAT(Generate("first", [] { return false; }),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_OK(Generate("second"));
  EXPECT_EQ(calls_->silence(absl::Now() + absl::Hours(1)),
            absl::ZeroDuration());
}

TEST_F(ChildCallsTest, AProcessThatEndsNoCancelledTextIsSilent) {
  Start(R"(next; piece "$n" x; exec sleep 100)");
  const absl::Time begun = absl::Now();
  EXPECT_THAT(Generate("first", [] { return false; }),
              StatusIs(absl::StatusCode::kCancelled));
  const absl::Time given_up = absl::Now();
  EXPECT_GE(calls_->silence(given_up + absl::Hours(1)), absl::Hours(1));
  EXPECT_LE(calls_->silence(begun + absl::Hours(1)), absl::Hours(1));
  // Later texts that nothing becomes of change nothing.
  EXPECT_THAT(
      Generate("x", nullptr, nullptr, absl::Now() + absl::Milliseconds(30)),
      StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_GE(calls_->silence(given_up + absl::Hours(1)), absl::Hours(1));
}

TEST_F(ChildCallsTest, APredictionThatIsWaitedForExplainsSilence) {
  Start(R"(
    next; t=$n; piece "$t" x; next; a=$n; piece "$t" y
    next; row "$a" label; refuse "$t" cancelled; next; last "$n" end; next)");
  std::future<absl::StatusOr<std::string>> row;
  const auto on_piece = [&, pieces = 0]() mutable {
    if (pieces++ == 0) {
      row = std::async(std::launch::async, [&] { return Predict(); });
      return true;
    }
    // The process computes; this call only waits for its turn.
    EXPECT_THAT(Predict(absl::Now() + absl::Milliseconds(30)),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
    EXPECT_EQ(calls_->silence(absl::Now() + absl::Hours(1)),
              absl::ZeroDuration());
    return false;
  };
  EXPECT_THAT(Generate("x", on_piece), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(*row.get(), "label");
  EXPECT_OK(Generate("last"));
  EXPECT_EQ(calls_->silence(absl::Now() + absl::Hours(1)),
            absl::ZeroDuration());
}

// The process may take as long for a prediction as its caller allows, and owes
// the end of a text only after that.
TEST_F(ChildCallsTest, SilenceBeginsWhenThePredictionIsGivenUp) {
  Start(R"(next; t=$n; piece "$t" x; next; piece "$t" y; exec sleep 100)");
  std::future<absl::StatusOr<std::string>> row;
  const auto on_piece = [&, pieces = 0]() mutable {
    if (pieces++ > 0) return false;
    row = std::async(std::launch::async, [&] {
      return Predict(absl::Now() + absl::Milliseconds(500));
    });
    return true;
  };
  EXPECT_THAT(Generate("x", on_piece), StatusIs(absl::StatusCode::kCancelled));
  const absl::Time text_left = absl::Now();
  EXPECT_THAT(row.get(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  const absl::Time row_left = absl::Now();
  EXPECT_GE(calls_->silence(row_left + absl::Hours(1)), absl::Hours(1));
  EXPECT_LT(calls_->silence(text_left + absl::Hours(1)), absl::Hours(1));
}

TEST_F(ChildCallsTest, CallersThatAreGoneOrLateStopTheirTexts) {
  Start(R"(
    while next; do
      case $n in
        cancel*) told=$n ;;
        *) if [ "$p" = tell ]; then last "$n" "$told"; else piece "$n" x; fi ;;
      esac
    done)");
  bool begun = false;
  const auto begin = [&] { return begun = true; };
  EXPECT_THAT(Generate("x", begin, [&] { return begun; }),
              StatusIs(absl::StatusCode::kCancelled));
  ASSERT_OK_AND_ASSIGN(std::string told, Generate("tell"));
  EXPECT_EQ(told, "cancel 1 END");
  // A request that was not sent in time is not cancelled, but forgotten.
  int number = 2;
  for (begun = false; !begun; ++number) {
    EXPECT_THAT(
        Generate("x", begin, nullptr, absl::Now() + absl::Milliseconds(100)),
        StatusIs(absl::StatusCode::kDeadlineExceeded));
  }
  ASSERT_OK_AND_ASSIGN(told, Generate("tell"));
  EXPECT_EQ(told, absl::StrCat("cancel ", number, " END"));
}

TEST_F(ChildCallsTest, TextsBeyondTheLimitWaitInOrder) {
  Start(R"(
    next; piece "$n" "$p"; next; told=$n
    next; last "$n" "$told"; next; last "$n" "$p after"; next)",
        1);
  // A call that waits asks whether its caller is gone, with no lock held: the
  // second is held up there until the third has had its chance to overtake.
  std::promise<void> second_waits, third_waits, second_goes_on;
  std::atomic<bool> first_ended{false};
  const auto second_gone = [&, first = true]() mutable {
    if (std::exchange(first, false)) {
      second_waits.set_value();
      second_goes_on.get_future().wait();
    }
    return false;
  };
  const auto third_gone = [&, asked = 0, after = 0]() mutable {
    if (asked++ == 0) third_waits.set_value();
    if (first_ended && after++ == 2) second_goes_on.set_value();
    return false;
  };
  std::future<absl::StatusOr<std::string>> second, third;
  EXPECT_THAT(Generate("a",
                       [&] {
                         second = std::async(std::launch::async, [&] {
                           return Generate("b", nullptr, second_gone);
                         });
                         second_waits.get_future().wait();
                         third = std::async(std::launch::async, [&] {
                           return Generate("c", nullptr, third_gone);
                         });
                         third_waits.get_future().wait();
                         return false;
                       }),
              StatusIs(absl::StatusCode::kCancelled));
  first_ended = true;
  // The process was told to stop before it got another text.
  ASSERT_OK_AND_ASSIGN(const std::string b, second.get());
  EXPECT_EQ(b, "cancel 1 END");
  ASSERT_OK_AND_ASSIGN(const std::string c, third.get());
  EXPECT_EQ(c, "c after END");
}

TEST_F(ChildCallsTest, WhoLeavesTheQueueIsNotWaitedFor) {
  Start(R"(next; piece "$n" "$p"; next; next; last "$n" "$p"; next)", 1);
  EXPECT_THAT(Generate("a",
                       [&] {
                         EXPECT_THAT(
                             Generate("b", nullptr, [] { return true; }),
                             StatusIs(absl::StatusCode::kCancelled));
                         return false;
                       }),
              StatusIs(absl::StatusCode::kCancelled));
  ASSERT_OK_AND_ASSIGN(const std::string c, Generate("c"));
  EXPECT_EQ(c, "c END");
}

TEST_F(ChildCallsTest, ADeathEndsAllCallsWithItsLastWords) {
  Start("next; next; next; echo 'comera-trainer: no room' >&2; exit 1");
  const auto dead =
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no room"));
  auto row = std::async(std::launch::async, [&] { return Predict(); });
  auto text = std::async(std::launch::async, [&] { return Generate("b"); });
  EXPECT_THAT(Generate("a"), dead);
  EXPECT_THAT(text.get(), dead);
  EXPECT_THAT(row.get(), dead);
  EXPECT_THAT(calls_->status(), dead);
  EXPECT_THAT(Predict(), dead);
}

TEST_F(ChildCallsTest, ADeathInTheMiddleOfATextIsNoEndOfIt) {
  Start("next; piece \"$n\" x; echo 'no room' >&2; exit 1");
  EXPECT_THAT(Generate("a"), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      HasSubstr("no room")));
}

TEST_F(ChildCallsTest, AnAnswerThatComesLateIsDropped) {
  Start(R"(next; a=$n; next; row "$a" late; last "$n" text
           next; row "$n" new; next)");
  EXPECT_THAT(Predict(absl::Now() + absl::Milliseconds(30)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_GE(calls_->silence(absl::Now() + absl::Hours(1)), absl::Hours(1));
  // The process owes an answer, so another prediction waits; a text need not.
  EXPECT_THAT(Predict(absl::Now() + absl::Milliseconds(30)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  ASSERT_OK_AND_ASSIGN(const std::string text, Generate("x"));
  EXPECT_EQ(text, "text END");
  ASSERT_OK_AND_ASSIGN(const std::string label, Predict());
  EXPECT_EQ(label, "new");
  EXPECT_EQ(calls_->silence(absl::Now() + absl::Hours(1)),
            absl::ZeroDuration());
}

TEST_F(ChildCallsTest, WhoLeavesHisPredictionIsNotWaitedFor) {
  Start(R"(next; a=$n; next; row "$a" late; last "$n" text
           next; row "$n" new; next)");
  const absl::Time later = absl::Now() + absl::Hours(1);
  const auto leaves = [] { return true; };
  // The process may have the first request already, so it owes the answer; the
  // second only waits for its turn.
  int asked = 0;
  EXPECT_THAT(Predict(later,
                      [&] {
                        return ++asked > 1 &&
                               calls_->silence(later) == absl::ZeroDuration();
                      }),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(Predict(later, leaves), StatusIs(absl::StatusCode::kCancelled));
  ASSERT_OK_AND_ASSIGN(const std::string text, Generate("x"));
  EXPECT_EQ(text, "text END");
  ASSERT_OK_AND_ASSIGN(const std::string label, Predict());
  EXPECT_EQ(label, "new");
}

TEST_F(ChildCallsTest, RefusalsEndOneCallOnly) {
  Start(R"(next; refuse "$n" "top_p: no"; next; last "$n" yes; next
           refuse "$n" "rows: no"; next)");
  EXPECT_THAT(Generate("a"),
              StatusIs(absl::StatusCode::kInvalidArgument, "top_p: no"));
  EXPECT_OK(Generate("b"));
  EXPECT_THAT(Predict(),
              StatusIs(absl::StatusCode::kInvalidArgument, "rows: no"));
  EXPECT_OK(calls_->status());
}

TEST_F(ChildCallsTest, WordsThatAreNoAnswersEndIt) {
  for (const char* script :
       {"next; echo hello; next", "next; refuse 0 'not understood'; next",
        "next; row \"$n\" label; next"}) {
    Start(script);
    EXPECT_THAT(Generate("a"), StatusIs(absl::StatusCode::kInternal));
    EXPECT_THAT(calls_->status(), StatusIs(absl::StatusCode::kInternal));
  }
}

TEST_F(ChildCallsTest, ModelsThatGenerateNothingSaySo) {
  Start("next", 0);
  EXPECT_THAT(Generate("a"), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      HasSubstr("causal_lm")));
  EXPECT_OK(calls_->status());
}

TEST_F(ChildCallsTest, EndEndsAllCalls) {
  Start(R"(next; piece "$n" x; exec sleep 100)");
  EXPECT_THAT(Generate("a",
                       [&] {
                         calls_->End(absl::UnavailableError("replaced"));
                         return true;
                       }),
              StatusIs(absl::StatusCode::kUnavailable, "replaced"));
}

}  // namespace
}  // namespace comera::worker
