// Tests of JSON text: what is malformed, how deep it nests, and what is
// written.
#include "common/json.h"

#include <string>

#include "gtest/gtest.h"

namespace comera {
namespace {

TEST(JsonTest, ReadsAndWrites) {
  const nlohmann::json value = ParseJson(R"({"b": [1, 2.5, "x"], "a": null})");
  EXPECT_EQ(value["b"][1], 2.5);
  EXPECT_EQ(JsonText(value), R"({"a":null,"b":[1,2.5,"x"]})");
  EXPECT_EQ(JsonText(ParseOrderedJson(R"({"b": 1, "a": 2})"), 2),
            "{\n  \"b\": 1,\n  \"a\": 2\n}");
}

TEST(JsonTest, MalformedTextIsDiscarded) {
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "nul", "1e999"}) {
    EXPECT_TRUE(ParseJson(text).is_discarded()) << text;
    EXPECT_TRUE(ParseOrderedJson(text).is_discarded()) << text;
  }
}

TEST(JsonTest, DepthIsBounded) {
  const auto nested = [](int depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_FALSE(ParseJson(nested(kMaxJsonDepth)).is_discarded());
  EXPECT_TRUE(ParseJson(nested(kMaxJsonDepth + 1)).is_discarded());
  EXPECT_TRUE(ParseJson(nested(1'000'000)).is_discarded());
  EXPECT_TRUE(ParseJson("[[1]]", /*max_depth=*/1).is_discarded());
  EXPECT_EQ(ParseJson(R"(["[[\"[{", {"\\": 1}])", 2).size(), 2u);
}

// A parser that looks at a whole array for each object in it takes minutes.
TEST(JsonTest, ManyObjectsAreReadInLinearTime) {
  constexpr int kObjects = 500'000;
  std::string text = "[";
  for (int i = 0; i < kObjects; ++i) text += "{},";
  text.back() = ']';
  EXPECT_EQ(ParseJson(text).size(), size_t{kObjects});
  EXPECT_EQ(ParseOrderedJson(text).size(), size_t{kObjects});
}

TEST(JsonTest, InvalidUtf8IsReplaced) {
  EXPECT_EQ(JsonText(nlohmann::json(std::string("a\xff"))),
            "\"a\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace comera
