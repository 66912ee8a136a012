// Tests how the ends of programs are classified.
#include "worker/trainer/program/program_end.h"

#include <signal.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/trainer/process/failure.h"
#include "worker/trainer/program/program_output.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;

ProgramEvents Failed(const std::string& error) {
  ProgramEvents events(ProgramEvents::Options{});
  EXPECT_OK(events.Read(absl::StrCat(
      R"({"event": "ended", "step": 7, "outcome": "failed", "error": ")", error,
      R"("})")));
  return events;
}

v1::FailureClass ClassOf(const std::string& error, int world_size) {
  return FailureClassOf(StatusOfProgram({0, 1}, Failed(error), "", world_size,
                                        /*out_of_memory=*/false));
}

TEST(ProgramEnd, ZeroIsSuccess) {
  EXPECT_OK(StatusOfProgram({}, ProgramEvents({}), "", 2, false));
}

TEST(ProgramEnd, TheExceptionTellsTheClass) {
  EXPECT_EQ(ClassOf("ValueError: no such word", 1), v1::USER);
  EXPECT_EQ(ClassOf("ValueError: no such word", 2), v1::USER);
  EXPECT_EQ(ClassOf("MemoryError: ", 1), v1::OUT_OF_MEMORY);
  EXPECT_EQ(ClassOf("OutOfMemoryError: CUDA out of memory.", 2),
            v1::OUT_OF_MEMORY);
  EXPECT_EQ(ClassOf("OSError: [Errno 28] No space left on device", 2),
            v1::DISK_FULL);
  EXPECT_EQ(ClassOf("FloatingPointError: loss is nan", 1), v1::NAN_LOSS);
  const std::string closed =
      "RuntimeError: [../gloo/transport/tcp/pair.cc:598] Connection closed by "
      "peer [127.0.0.1]:3";
  EXPECT_EQ(ClassOf(closed, 2), v1::COLLECTIVE_HANG);
  // There is no peer.
  EXPECT_EQ(ClassOf(closed, 1), v1::USER);
}

TEST(ProgramEnd, WhatTheOutputEndsWithServesWithoutARun) {
  const ProgramEvents silent(ProgramEvents::Options{});
  const absl::Status status =
      StatusOfProgram({0, 1}, silent, "KeyError: 'x'", 2, false);
  EXPECT_EQ(FailureClassOf(status), v1::USER);
  EXPECT_THAT(std::string(status.message()), HasSubstr("KeyError: 'x'"));
}

TEST(ProgramEnd, TheExceptionIsFoundInTheOutput) {
  EXPECT_EQ(LastExceptionIn("step 5\nTraceback (most recent call last):\n"
                            "  File \"train.py\", line 3, in <module>\n"
                            "    raise KeyError('x')\nKeyError: 'x'\n"),
            "KeyError: 'x'");
  EXPECT_EQ(LastExceptionIn("torch.cuda.OutOfMemoryError: CUDA\nbye\n"),
            "torch.cuda.OutOfMemoryError: CUDA");
  EXPECT_EQ(LastExceptionIn("KeyboardInterrupt\n"), "KeyboardInterrupt");
  EXPECT_EQ(LastExceptionIn("No Error: here\nstep 5\n"), "");
  EXPECT_EQ(LastExceptionIn(""), "");
}

TEST(ProgramEnd, AGangThatDoesNotSayWhyIsTriedAgain) {
  const ProgramEvents silent(ProgramEvents::Options{});
  EXPECT_EQ(FailureClassOf(StatusOfProgram({0, 1}, silent, "", 2, false)),
            v1::RANK_LOST);
  EXPECT_EQ(FailureClassOf(StatusOfProgram({0, 1}, silent, "", 1, false)),
            v1::USER);
}

TEST(ProgramEnd, SignalsAreTheMachinesDoing) {
  const ProgramEvents silent(ProgramEvents::Options{});
  const absl::Status killed =
      StatusOfProgram({SIGKILL, 0}, silent, "", 1, false);
  EXPECT_EQ(FailureClassOf(killed), v1::RANK_LOST);
  EXPECT_THAT(std::string(killed.message()), HasSubstr("signal 9"));
  EXPECT_EQ(FailureClassOf(StatusOfProgram({SIGKILL, 0}, silent, "", 1, true)),
            v1::OUT_OF_MEMORY);
}

TEST(ProgramEnd, TheMessageHasStatusErrorAndStep) {
  const absl::Status status =
      StatusOfProgram({0, 3}, Failed("ValueError: x"), "", 1, false);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("status 3: ValueError: x"));
}

}  // namespace
}  // namespace comera::trainer
