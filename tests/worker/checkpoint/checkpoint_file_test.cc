// Checks the names of training states, and reading their files in parts.
#include "worker/checkpoint/checkpoint_file.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/checkpoint/checkpoint_names.h"
#include "worker/trainer/state/checkpoint_name.h"

namespace comera::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Makes a file as the trainer writes it.
std::string State(const std::string& text) {
  return absl::StrCat(text, "\nsha256 ", Sha256Hex(text), "\n");
}

TEST(CheckpointNamesTest, OnlyTheTrainersNames) {
  auto name = ParseCheckpointName("step-000000000120.attempt-17.snapshot");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->step, 120);
  EXPECT_EQ(name->attempt, 17);
  EXPECT_TRUE(name->snapshot);
  // Earlier versions did not write the attempt.
  name = ParseCheckpointName("step-000000000120.checkpoint");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->attempt, 0);
  for (const char* bad :
       {"", "step-1.checkpoint", "step-00000000012x.checkpoint",
        "step-000000000120.checkpoint.tmp.1", "step-0000000001200.snapshot",
        "step-000000000120.attempt-.checkpoint",
        "step-000000000120.attempt-0.checkpoint",
        "step-000000000120.attempt-01.checkpoint",
        "step-000000000120.attempt--1.checkpoint",
        "step-000000000120.attempt-1234567890123.checkpoint",
        "step-000000000120.attempt-1x.checkpoint",
        "step-000000000120.attempt-1"}) {
    EXPECT_FALSE(ParseCheckpointName(bad).has_value()) << bad;
    EXPECT_FALSE(trainer::ParseCheckpointFile(bad).has_value()) << bad;
  }
}

TEST(CheckpointNamesTest, TheTrainersAre) {
  for (int64_t attempt : {int64_t{0}, int64_t{1}, kMaxNamed}) {
    for (int64_t step : {int64_t{0}, int64_t{120}, kMaxNamed}) {
      for (bool snapshot : {false, true}) {
        const std::string file =
            trainer::ToFileName({{attempt, step}, snapshot});
        EXPECT_EQ(ToFileName({step, snapshot, attempt}), file);
        const auto name = ParseCheckpointName(file);
        ASSERT_TRUE(name.has_value()) << file;
        EXPECT_EQ(name->step, step);
        EXPECT_EQ(name->snapshot, snapshot);
        EXPECT_EQ(name->attempt, attempt);
        const auto own = trainer::ParseCheckpointFile(file);
        ASSERT_TRUE(own.has_value()) << file;
        EXPECT_EQ(own->key.attempt, attempt);
        EXPECT_EQ(own->key.step, step);
      }
    }
  }
}

TEST(CheckpointNamesTest, AStateIsFoundByItsAttempt) {
  const std::vector<CheckpointName> names = {{100, false, 0},
                                             {100, true, 2},
                                             {100, false, 2},
                                             {100, false, 3},
                                             {101, false, 2}};
  const auto found = [&](const StateKey& key) {
    std::vector<std::string> files;
    for (const CheckpointName& name : NamesOf(key, names)) {
      files.push_back(absl::StrCat(name.attempt, name.snapshot ? "s" : ""));
    }
    return files;
  };
  // Its own, then the one that nobody knows the attempt of.
  EXPECT_THAT(found({2, 100}), ElementsAre("2", "2s", "0"));
  EXPECT_THAT(found({4, 100}), ElementsAre("0"));
  EXPECT_THAT(found({0, 100}), ElementsAre("3", "2", "2s", "0"));
  EXPECT_THAT(found({2, 102}), IsEmpty());
}

TEST(CheckpointFileTest, EveryFlippedBitIsSeen) {
  const PathBelow path = {::testing::TempDir(), "checkpoint_file_test"};
  const auto verify = [&](const std::string& contents) {
    std::ofstream(path.ToString(), std::ios::binary | std::ios::trunc)
        << contents;
    auto file = CheckpointFile::Open(path);
    EXPECT_OK(file);
    return file->Verify();
  };
  const std::string whole = State("some state");
  EXPECT_TRUE(IsWhole(whole));
  EXPECT_OK(verify(whole));
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] ^= 4;
    EXPECT_FALSE(IsWhole(damaged)) << i;
    EXPECT_FALSE(IsWhole(whole.substr(0, i))) << i;
    EXPECT_THAT(verify(damaged), StatusIs(absl::StatusCode::kDataLoss)) << i;
    EXPECT_THAT(verify(whole.substr(0, i)),
                StatusIs(absl::StatusCode::kDataLoss))
        << i;
  }
}

TEST(CheckpointFileTest, IsReadFromAnyOffsetInParts) {
  const PathBelow path = {::testing::TempDir(), "checkpoint_file_test"};
  // Parts end within the checksum.
  const std::string whole = State(std::string((3 << 20) - 40, 'x'));
  ASSERT_OK(WriteFileAtomically(path.ToString(), whole));
  ASSERT_OK_AND_ASSIGN(const CheckpointFile file, CheckpointFile::Open(path));
  EXPECT_EQ(file.size(), static_cast<int64_t>(whole.size()));
  std::string sha256;
  EXPECT_OK(file.Verify(&sha256));
  EXPECT_EQ(sha256, Sha256Hex(whole));
  for (size_t offset : {size_t{0}, size_t{1} << 20, whole.size()}) {
    std::string rest;
    EXPECT_OK(
        file.Read(static_cast<int64_t>(offset), [&](std::string_view data) {
          rest.append(data);
          return absl::OkStatus();
        }));
    EXPECT_EQ(rest, whole.substr(offset));
  }
  EXPECT_THAT(file.Read(file.size() + 1, nullptr),
              StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(CheckpointFile::Open({"/dev", "null"}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace comera::worker
