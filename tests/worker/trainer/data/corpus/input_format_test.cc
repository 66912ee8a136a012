// Tests the input format that an exported model carries.
#include "worker/trainer/data/corpus/input_format.h"

#include <string>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/data/temp_folder.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(InputFormatTest, ComesBackAsItWasSaved) {
  const TempFolder folder;
  ASSERT_OK_AND_ASSIGN(InputFormat format, LoadInputFormat(folder.path()));
  EXPECT_TRUE(format.fields.empty());
  format.fields = {"docstring", "code"};
  format.fields_joined = true;
  format.label_field = "gold \"label\"";
  format.labels = {"a", "b\n", "\xff"};  // no UTF-8 is replaced
  format.clicks = "criteo";
  ASSERT_OK(SaveInputFormat(format, folder.path()));
  ASSERT_OK_AND_ASSIGN(const InputFormat loaded,
                       LoadInputFormat(folder.path()));
  EXPECT_EQ(loaded.fields, format.fields);
  EXPECT_TRUE(loaded.fields_joined);
  EXPECT_EQ(loaded.label_field, format.label_field);
  EXPECT_THAT(loaded.labels, ElementsAre("a", "b\n", "\xef\xbf\xbd"));
  EXPECT_EQ(loaded.clicks, "criteo");
}

TEST(InputFormatTest, MalformedOnesAreRefused) {
  const std::string head = R"({"format": "comera-inputs", "version": 1)";
  EXPECT_OK(ParseInputFormat(head + "}", "f"));
  for (const char* rest :
       {R"(, "fields": 1)", R"(, "fields": [1])", R"(, "labels": {"a": 1})",
        R"(, "fields": ["a", "b", "c"])", R"(, "clicks": "other")",
        R"(, "fields_joined": 1)", R"(, "label_field": [])",
        R"(, "x": [[[[[[[[[[1]]]]]]]]]])"}) {
    EXPECT_THAT(ParseInputFormat(head + rest + "}", "f"),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("f: ")))
        << rest;
  }
  for (const char* text : {"", "{", "[]", R"({"format": "comera-inputs"})"}) {
    EXPECT_THAT(ParseInputFormat(text, "f"),
                StatusIs(absl::StatusCode::kDataLoss))
        << text;
  }
}

}  // namespace
}  // namespace comera::trainer
