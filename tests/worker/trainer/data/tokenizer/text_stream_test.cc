// Tests the text of ids that come one at a time.
#include "worker/trainer/data/tokenizer/text_stream.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

class FakeTokenizer : public Tokenizer {
 public:
  explicit FakeTokenizer(std::vector<std::string> tokens,
                         bool adds_first_space = false)
      : tokens_(std::move(tokens)), adds_first_space_(adds_first_space) {}
  void Encode(absl::string_view, std::vector<int32_t>*) override {}
  bool adds_first_space() const override { return adds_first_space_; }
  const SpecialTokens& special_tokens() const override { return special_; }
  int32_t vocabulary_size() const override {
    return static_cast<int32_t>(tokens_.size());
  }
  bool has_segments() const override { return false; }
  const std::string& Token(int32_t id) const override { return tokens_[id]; }
  absl::Status Save(const std::string&) const override {
    return absl::OkStatus();
  }

 private:
  const std::vector<std::string> tokens_;
  const bool adds_first_space_;
  const SpecialTokens special_;
};

using Pieces = std::vector<std::string>;

// What each id gives, and the end.
Pieces Stream(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
              TextStream::Start start = TextStream::Start::kText) {
  TextStream stream(&tokenizer, start);
  Pieces pieces;
  for (const int32_t id : ids) pieces.push_back(stream.Add(id));
  pieces.push_back(stream.Finish());
  return pieces;
}

TEST(TextStreamTest, HoldsBackIncompleteCharacters) {
  const FakeTokenizer tokenizer(
      {"a", "\xf0\x9f", "\x98", "\x80", "\xc3", "\xa9!", "b\xe6\x9d"});
  EXPECT_EQ(Stream(tokenizer, {0, 1, 2, 3, 0}),
            (Pieces{"a", "", "", "\U0001F600", "a", ""}));
  EXPECT_EQ(Stream(tokenizer, {4, 5}), (Pieces{"", "\u00e9!", ""}));
  EXPECT_EQ(Stream(tokenizer, {6, 6}),
            (Pieces{"b", "\ufffdb", "\ufffd"}));  // never completed
  EXPECT_EQ(Stream(tokenizer, {2, 0}), (Pieces{"\ufffd", "a", ""}));
}

TEST(TextStreamTest, EqualsDecodingAtOnce) {
  const std::string text = "na\u00efve \u6771\u4eac \U0001F600 x";
  std::vector<std::string> bytes;
  for (int byte = 0; byte < 256; ++byte) {
    bytes.emplace_back(1, static_cast<char>(byte));
  }
  const FakeTokenizer tokenizer(bytes);
  std::vector<int32_t> ids;
  for (const unsigned char byte : text) ids.push_back(byte);
  std::string joined;
  for (const std::string& piece : Stream(tokenizer, ids)) joined += piece;
  EXPECT_EQ(joined, text);
  EXPECT_EQ(tokenizer.Decode(ids), text);
}

TEST(TextStreamTest, DropsTheAddedSpaceOfATextOnly) {
  const FakeTokenizer tokenizer({" a", " ", "", "b"}, true);
  EXPECT_EQ(Stream(tokenizer, {0, 0}), (Pieces{"a", " a", ""}));
  EXPECT_EQ(Stream(tokenizer, {1, 0}), (Pieces{"", " a", ""}));
  EXPECT_EQ(Stream(tokenizer, {2, 0}), (Pieces{"", "a", ""}));
  EXPECT_EQ(Stream(tokenizer, {3, 0}), (Pieces{"b", " a", ""}));
  EXPECT_EQ(Stream(tokenizer, {0, 0}, TextStream::Start::kMiddle),
            (Pieces{" a", " a", ""}));
  EXPECT_EQ(tokenizer.Decode({1, 0}), " a");
  EXPECT_EQ(tokenizer.Decode({0, 0}), "a a");
}

TEST(TextStreamTest, IdsOutsideTheVocabulary) {
  const FakeTokenizer tokenizer({"a"});
  EXPECT_EQ(Stream(tokenizer, {-1, 0, 1}), (Pieces{"", "a", "", ""}));
  EXPECT_EQ(tokenizer.Decode({-1, 0, 1}), "a");
}

}  // namespace
}  // namespace comera::trainer
