// Tests a child process whose lines are read while it runs.
#include "client/child_program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::client {
namespace {

using ::testing::ElementsAre;

// A shell that runs `script`.
std::unique_ptr<ChildProgram> Shell(
    const std::string& script,
    const ChildProgram::Options& options = ChildProgram::Options()) {
  auto program = ChildProgram::Start({"/bin/sh", "-c", script}, options);
  EXPECT_OK(program);
  return program.ok() ? *std::move(program) : nullptr;
}

std::vector<std::string> Lines(ChildProgram* program) {
  std::vector<std::string> lines;
  while (true) {
    const auto line = program->NextLine();
    EXPECT_OK(line);
    if (!line.ok() || !line->has_value()) return lines;
    lines.push_back(**line);
  }
}

TEST(ChildProgramTest, LinesErrorsAndTheEndAreTold) {
  const auto program =
      Shell("echo one; echo; printf 'two\\nrest'; echo ' why ' >&2; exit 3");
  EXPECT_THAT(Lines(program.get()), ElementsAre("one", "", "two"));
  const auto end = program->WaitForEnd();
  ASSERT_OK(end);
  EXPECT_FALSE(end->by_signal);
  EXPECT_EQ(end->code, 3);
  EXPECT_EQ(program->Errors(100), "why");
  EXPECT_EQ(program->Errors(4), "hy");
}

TEST(ChildProgramTest, AProgramThatCannotBeRunIsRefused) {
  EXPECT_THAT(ChildProgram::Start({"/nowhere/program"}, {}).status(),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(ChildProgram::Start({"/dev/null"}, {}).status(),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST(ChildProgramTest, TokensOfACoordinatorStayHere) {
  ASSERT_EQ(setenv("COMERA_TOKEN", "secret", 1), 0);
  ASSERT_EQ(setenv("NOT_COMERA_TOKEN", "known", 1), 0);
  const auto program = Shell("echo \"$COMERA_TOKEN,$NOT_COMERA_TOKEN\"");
  EXPECT_THAT(Lines(program.get()), ElementsAre(",known"));
}

TEST(ChildProgramTest, InputIsNothingOrSentOrInherited) {
  constexpr char kEcho[] = "while read line; do echo \"got $line\"; done";
  EXPECT_THAT(Lines(Shell(kEcho).get()), ElementsAre());

  ChildProgram::Options options;
  options.input = ChildProgram::Input::kSent;
  const auto sent = Shell("read line; echo \"got $line\"", options);
  EXPECT_TRUE(sent->Send("a line\n"));
  EXPECT_THAT(Lines(sent.get()), ElementsAre("got a line"));
  ASSERT_OK(sent->WaitForEnd());
  // No signal ends this process.
  EXPECT_FALSE(sent->Send("another\n"));

  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const int own = dup(STDIN_FILENO);
  ASSERT_GE(dup2(ends[0], STDIN_FILENO), 0);
  ASSERT_EQ(write(ends[1], "mine\n", 5), 5);
  close(ends[1]);
  options.input = ChildProgram::Input::kInherited;
  EXPECT_THAT(Lines(Shell(kEcho, options).get()), ElementsAre("got mine"));
  dup2(own, STDIN_FILENO);
  close(own);
  close(ends[0]);
}

// A terminal's Ctrl-C goes to the process group.
TEST(ChildProgramTest, OnlyOneThatInheritsTheInputSharesTheProcessGroup) {
  for (const auto input :
       {ChildProgram::Input::kNone, ChildProgram::Input::kInherited}) {
    ChildProgram::Options options;
    options.input = input;
    const auto program = Shell("echo $$; while :; do :; done", options);
    const auto line = program->NextLine();
    ASSERT_OK(line);
    int pid = 0;
    ASSERT_TRUE(line->has_value() && absl::SimpleAtoi(**line, &pid));
    const bool shares = input == ChildProgram::Input::kInherited;
    EXPECT_EQ(getpgid(pid), shares ? getpgrp() : pid);
  }
}

TEST(ChildProgramTest, TooLongALineIsGivenUp) {
  ChildProgram::Options options;
  options.longest_line = 1000;
  const auto program = Shell("yes | tr -d '\\n'", options);
  EXPECT_THAT(program->NextLine().status(),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(ChildProgramTest, StoppingEndsIt) {
  for (const bool at_once : {false, true}) {
    const auto program = Shell("echo ready; while :; do :; done");
    ASSERT_OK(program->NextLine());
    std::thread stopper([&] { program->Stop(at_once); });
    const auto end = program->WaitForEnd();
    stopper.join();
    ASSERT_OK(end);
    EXPECT_TRUE(end->by_signal);
    EXPECT_EQ(end->code, at_once ? SIGKILL : SIGTERM);
  }
}

TEST(ChildProgramTest, ItEndsWithTheObject) {
  int pid = 0;
  {
    const auto program = Shell("trap '' TERM; echo $$; while :; do :; done");
    const auto line = program->NextLine();
    ASSERT_OK(line);
    ASSERT_TRUE(line->has_value() && absl::SimpleAtoi(**line, &pid));
    EXPECT_EQ(kill(pid, 0), 0);
  }
  // It has been reaped.
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

}  // namespace
}  // namespace comera::client
