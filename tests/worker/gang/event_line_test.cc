// Tests that no line of a member makes an event that no call can carry.
#include "worker/gang/event_line.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

// Whether the line is no event, or one that arrives as it was sent: protobuf
// refuses a whole message for one string in it that is not UTF-8.
bool Arrives(const std::string& line) {
  const std::optional<v1::TrainerEvent> event = ParseEventLine(line);
  if (!event) return true;
  v1::TrainerEvent arrived;
  return arrived.ParseFromString(event->SerializeAsString());
}

// Strings in JSON that are not text, or stand for none.
std::vector<std::string> BadStrings() {
  std::vector<std::string> all = {"\xff",
                                  "\xc0\x80",
                                  "\xed\xa0\x80",
                                  "\xf4\x90\x80\x80",
                                  "\xe2\x82",
                                  "a\x80",
                                  R"(\ud800)",
                                  R"(\udc00)",
                                  R"(\ud800\ud800)",
                                  R"(\udc00\ud800)",
                                  R"(\ud800x)",
                                  R"(\udbff\u0041)",
                                  R"(\uD83D\u)",
                                  R"(\u0000)",
                                  R"(\udfff\udfff)"};
  // Cut off anywhere in the middle of a character.
  all.push_back(std::string(300, 'x') + "\xf0\x9f\x98");
  return all;
}

TEST(EventLineTest, EveryStringOfAnEventIsTextOrTheLineIsNone) {
  for (const std::string& bad : BadStrings()) {
    for (const std::string& line : {
             R"({"heartbeat":{"activity":")" + bad + R"("}})",
             R"({"failure":{"message":")" + bad + R"("}})",
             R"({"failure":{"logTail":")" + bad + R"("}})",
             R"({"incident":{"message":")" + bad + R"("}})",
             R"({"runInfo":{"device":")" + bad + R"("}})",
             R"({"runInfo":{"initialErrors":[{"layer":")" + bad + R"("}]}})",
             R"({"rankSnapshot":{"layers":[{"layer":")" + bad + R"("}]}})",
             R"({"rankSnapshot":{"layers":[{"layerClass":")" + bad + R"("}]}})",
             R"({"result":{"reason":")" + bad + R"("}})",
         }) {
      EXPECT_TRUE(Arrives(line)) << testing::PrintToString(line);
    }
  }
}

// The attack: a report that fits into no call keeps its member's end from being
// told, and so its slot.
TEST(EventLineTest, WhatFitsIntoNoCallIsNoEvent) {
  std::string ranks = "-1";
  for (int i = 0; i < 300000; ++i) ranks += ",-1";
  EXPECT_FALSE(ParseEventLine(R"({"rankSnapshot":{"layers":[{"current":[)" +
                              ranks + "]}]}}")
                   .has_value());
}

TEST(EventLineTest, TextArrives) {
  const auto event =
      ParseEventLine("{\"heartbeat\":{\"activity\":\"gr\xc3\xbc\xc3\x9f\"}}");
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->heartbeat().activity(), "gr\xc3\xbc\xc3\x9f");
  EXPECT_TRUE(Arrives(R"({"result":{"reason":"\ud83d\ude00"}})"));
}

}  // namespace
}  // namespace comera::worker
