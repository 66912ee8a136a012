// Tests the checks of UTF-8 and of text.
#include "worker/trainer/data/source/text.h"

#include <string>

#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

TEST(IsValidUtf8Test, Table) {
  for (const std::string& good :
       {std::string(), std::string("plain text, longer than eight bytes"),
        std::string("é東😀"), std::string("12345678é"), std::string("\0", 1)}) {
    EXPECT_TRUE(IsValidUtf8(good)) << good;
  }
  for (const char* bad : {"\x80", "\xff", "\xc3", "\xc3(", "\xc0\xaf",
                          "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                          "12345678\xe6\x9d", "1234567\xc3 12345678"}) {
    EXPECT_FALSE(IsValidUtf8(bad)) << bad;
  }
}

TEST(PrintableTest, SafeInMessages) {
  EXPECT_EQ(Printable("é"), "é");
  EXPECT_EQ(Printable("a\nb"), "a\\nb");
  EXPECT_EQ(Printable("\xff\x1b"), "\\xff\\x1b");
  EXPECT_EQ(Printable(std::string(81, 'x')), std::string(80, 'x') + "...");
  // A character on the cut is left out whole.
  EXPECT_EQ(Printable(std::string(79, 'x') + "éé"),
            std::string(79, 'x') + "...");
  EXPECT_TRUE(IsValidUtf8(Printable(std::string(200, '\xc3'))));
}

TEST(PlaceTest, PathsAreWhole) {
  const std::string path = "/" + std::string(200, 'p');
  EXPECT_EQ(Place(path, 7), path + ":7");
  EXPECT_EQ(Place("a\xff", 1), "a\\xff:1");
}

}  // namespace
}  // namespace comera::trainer
