// Exchanges lines with child processes that answer, stay silent, flood or die.

#include "worker/predict/model_child.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<ModelChild> StartShell(const std::string& script) {
  auto child = ModelChild::Start({"/bin/sh", "-c", script}, {}, {});
  EXPECT_OK(child);
  return child.ok() ? *std::move(child) : nullptr;
}

absl::Time Soon() { return absl::Now() + absl::Seconds(20); }

TEST(ModelChildTest, LinesComeBack) {
  const auto child = StartShell("cat");
  for (const size_t size : {0, 1, 40000}) {
    ASSERT_OK(child->Send(std::string(size, 'x') + "\n", Soon()));
    ASSERT_OK_AND_ASSIGN(const std::string answer, child->Receive(Soon()));
    EXPECT_EQ(answer.size(), size);
  }
}

// A line that exceeds the pipe's capacity waits until the child has read it.
TEST(ModelChildTest, LongLinesAreTakenPieceByPiece) {
  const auto child = StartShell("head -c 3000000 | wc -c; read x");
  ASSERT_OK(child->Send(std::string(3000000, 'x'), Soon()));
  ASSERT_OK_AND_ASSIGN(const std::string count, child->Receive(Soon()));
  EXPECT_EQ(count, "3000000");
}

TEST(ModelChildTest, ItsEndIsToldWithItsLastWords) {
  const auto child =
      StartShell("read x; echo 'comera-trainer: no room' >&2; exit 1");
  ASSERT_OK(child->Send("x\n", Soon()));
  EXPECT_THAT(
      child->Receive(Soon()),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no room")));
  EXPECT_THAT(child->Receive(Soon()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(ModelChildTest, SilenceEndsAtTheDeadline) {
  const auto child = StartShell("while :; do read x || exit; done");
  ASSERT_OK(child->Send("x\n", Soon()));
  EXPECT_THAT(child->Receive(absl::Now() + absl::Milliseconds(30)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST(ModelChildTest, MuchOnStandardErrorBlocksNothing) {
  const auto child = StartShell(
      "i=0; while [ $i -lt 3000 ]; do echo "
      "'a long line of complaints that nobody wants to read' >&2; "
      "i=$((i+1)); done; echo done; read x");
  ASSERT_OK_AND_ASSIGN(const std::string line, child->Receive(Soon()));
  EXPECT_EQ(line, "done");
}

TEST(ModelChildTest, ProgramsThatAreNotThere) {
  EXPECT_THAT(ModelChild::Start({"/nonexistent/x"}, {}, {}),
              StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace comera::worker
