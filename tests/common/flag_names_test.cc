// Checks that flags are known by both spellings.
#include "common/flag_names.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Spell(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "program");
  const std::set<std::string> flags = {"--data_dir", "--print-config"};
  return WithKnownFlags(
      static_cast<int>(arguments.size()), arguments.data(),
      [&](const std::string& flag) { return flags.count(flag) > 0; });
}

TEST(FlagNames, DashesStandForUnderscores) {
  EXPECT_THAT(
      Spell({"--data-dir=/a-b", "--data-dir", "c-d", "--data_dir=x"}),
      ElementsAre("--data_dir=/a-b", "--data_dir", "c-d", "--data_dir=x"));
}

TEST(FlagNames, WhatIsKnownOrUnknownEitherWayStays) {
  EXPECT_THAT(
      Spell({"--print-config", "--no-such", "-d", "--", "--data-dir"}),
      ElementsAre("--print-config", "--no-such", "-d", "--", "--data-dir"));
  EXPECT_THAT(Spell({}), IsEmpty());
  EXPECT_THAT(WithKnownFlags(0, nullptr, nullptr), IsEmpty());
}

}  // namespace
}  // namespace comera
