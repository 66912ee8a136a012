// Checks the failure classes of exits, and the cleaning of UTF-8.

#include "worker/gang/member_failure.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

using ::testing::HasSubstr;

TEST(MemberFailureTest, ClassesOfEnds) {
  v1::MemberKey rank;
  rank.set_rank(3);
  rank.set_attempt(2);
  MemberExit exit;
  exit.code = 5;
  const v1::Failure code = FailureOfExit(exit, rank, absl::FromUnixSeconds(9));
  EXPECT_EQ(code.failure_class(), v1::RANK_LOST);
  EXPECT_THAT(code.message(), HasSubstr("code 5"));
  EXPECT_EQ(code.rank(), 3);
  EXPECT_EQ(code.attempt(), 2);
  EXPECT_EQ(code.time().seconds(), 9);
  exit.signal = 9;
  exit.code = 0;
  EXPECT_THAT(FailureOfExit(exit, rank, absl::Now()).message(),
              HasSubstr("signal 9"));
  exit.out_of_memory_kill = true;
  EXPECT_EQ(FailureOfExit(exit, rank, absl::Now()).failure_class(),
            v1::OUT_OF_MEMORY);
  EXPECT_THAT(FailureOfExit({}, rank, absl::Now()).message(),
              HasSubstr("without a result"));
}

TEST(MemberFailureTest, BytesThatAreNoUtf8BecomeQuestionMarks) {
  EXPECT_EQ(ToUtf8("plain \n\t"), "plain \n\t");
  const std::string good = "\u00e9\u20ac\U0001f600";
  EXPECT_EQ(ToUtf8(good), good);
  // A tail that starts within a character.
  EXPECT_EQ(ToUtf8(good.substr(1)), "?" + good.substr(2));
  EXPECT_EQ(ToUtf8(good.substr(0, good.size() - 1)), good.substr(0, 5) + "???");
  // Overlong, surrogate, and beyond U+10FFFF.
  EXPECT_EQ(ToUtf8("\xc0\xaf"), "??");
  EXPECT_EQ(ToUtf8("\xed\xa0\x80"), "???");
  EXPECT_EQ(ToUtf8("\xf4\x90\x80\x80"), "????");
  EXPECT_EQ(ToUtf8("\xff"), "?");
}

}  // namespace
}  // namespace comera::worker
