// Tests the byte-level BPE of a tokenizer.json.
#include "worker/trainer/data/tokenizer/hugging_face_tokenizer.h"

#include <functional>
#include <string>
#include <vector>

#include "common/files.h"
#include "common/status_matchers.h"
#include "nlohmann/json.hpp"
#include "tests/worker/trainer/data/temp_folder.h"
#include "tests/worker/trainer/data/tokenizer/small_files.h"

namespace comera::trainer {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

// Ids: ab 256, " a" 257, " ab" 258, <|endoftext|> 259.
constexpr int32_t kEnd = 259;
json Small() {
  return SmallTokenizerJson({{"a", "b"}, {"\u0120", "a"}, {"\u0120", "ab"}});
}

std::unique_ptr<HuggingFaceTokenizer> Make(const json& file) {
  auto tokenizer = HuggingFaceTokenizer::Parse(file.dump(), "t.json");
  EXPECT_OK(tokenizer);
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

Ids Encode(Tokenizer* tokenizer, absl::string_view text) {
  Ids ids;
  tokenizer->Encode(text, &ids);
  return ids;
}

json Added(int32_t id, const std::string& content) {
  return {{"id", id}, {"content", content}, {"special", true}};
}

TEST(HuggingFaceTokenizerTest, MergesAndEndOfText) {
  auto tokenizer = Make(Small());
  EXPECT_EQ(tokenizer->vocabulary_size(), 260);
  EXPECT_EQ(tokenizer->end_of_text(), kEnd);
  EXPECT_EQ(Encode(tokenizer.get(), "abab ab a\n"),
            Ids({256, 256, 258, 257, '\n'}));
  EXPECT_EQ(Encode(tokenizer.get(), "a<|endoftext|> ab<|endoftext|>"),
            Ids({'a', kEnd, 258, kEnd}));
  EXPECT_EQ(Encode(tokenizer.get(), ""), Ids());
  EXPECT_EQ(tokenizer->Token(257), "\u0120a");
  EXPECT_EQ(tokenizer->special_tokens().cls, -1);
  EXPECT_EQ(tokenizer->special_tokens().pad, kEnd);
}

TEST(HuggingFaceTokenizerTest, PairsAsMerges) {
  json file = Small();
  for (json& merge : file["model"]["merges"]) {
    const std::string text = merge;
    const size_t space = text.find(' ');
    merge = json::array({text.substr(0, space), text.substr(space + 1)});
  }
  EXPECT_EQ(Encode(Make(file).get(), " ab"), Ids({258}));
}

TEST(HuggingFaceTokenizerTest, AnyBytesComeBack) {
  auto tokenizer = Make(Small());
  std::string text;
  uint32_t state = 99;
  for (int i = 0; i < 50000; ++i) {
    state = state * 1664525 + 1013904223;
    const char bytes[] = {'a', 'b', ' ', '\n', '\xc3', '\xa9', '\0', '\xff'};
    text.push_back(bytes[state >> 29]);
  }
  EXPECT_EQ(tokenizer->Decode(Encode(tokenizer.get(), text)), text);
  EXPECT_EQ(tokenizer->Decode({'a', kEnd, 258}), "a ab");
}

TEST(HuggingFaceTokenizerTest, PrefixSpace) {
  json file = Small();
  file["pre_tokenizer"]["add_prefix_space"] = true;
  auto tokenizer = Make(file);
  EXPECT_EQ(Encode(tokenizer.get(), "ab"), Ids({258}));
  EXPECT_EQ(Encode(tokenizer.get(), " ab"), Ids({258}));
  EXPECT_EQ(Encode(tokenizer.get(), "<|endoftext|>ab"), Ids({kEnd, 258}));
  EXPECT_EQ(Encode(tokenizer.get(), ""), Ids());
}

TEST(HuggingFaceTokenizerTest, WithoutWords) {
  json file = SmallTokenizerJson({{"b", "\u0120"}});
  EXPECT_EQ(Encode(Make(file).get(), "b b"), Ids({'b', ' ', 'b'}));
  json part = file["pre_tokenizer"];
  part["use_regex"] = false;
  file["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers", json::array({part})}};
  EXPECT_EQ(Encode(Make(file).get(), "b b"), Ids({256, 'b'}));
}

TEST(HuggingFaceTokenizerTest, AddedTokens) {
  json file = Small();
  json& added = file["added_tokens"];
  added.push_back(Added(260, "<x>"));
  added.push_back(Added(261, "<x>a"));
  added.push_back(Added(262, "<left>"));
  added.back()["lstrip"] = true;
  added.push_back(Added(263, "<right>"));
  added.back()["rstrip"] = true;
  added.push_back(
      {{"id", 264}, {"content", "  "}, {"special", false}});  // normalized
  auto tokenizer = Make(file);
  EXPECT_EQ(Encode(tokenizer.get(), "<x><x>ab<x"),
            Ids({260, 261, 'b', '<', 'x'}));
  EXPECT_EQ(Encode(tokenizer.get(), "a \u00a0\n<left> b"),
            Ids({'a', 262, ' ', 'b'}));
  EXPECT_EQ(Encode(tokenizer.get(), "a <right>\t\u3000b"),
            Ids({'a', ' ', 263, 'b'}));
  // The space between goes to the first that takes it.
  EXPECT_EQ(Encode(tokenizer.get(), "<right> <left>"), Ids({263, 262}));
  EXPECT_EQ(Encode(tokenizer.get(), "a  <left>b   b"),
            Ids({'a', 262, 'b', 264, ' ', 'b'}));
  EXPECT_EQ(tokenizer->Decode({260, 264, 'b'}), "  b");
}

TEST(HuggingFaceTokenizerTest, SpecialTokensOfRoberta) {
  json file = Small();
  file["added_tokens"] =
      json::array({Added(259, "<s>"), Added(260, "<pad>"), Added(261, "</s>"),
                   Added(262, "<unk>"), Added(263, "<mask>")});
  auto tokenizer = Make(file);
  const SpecialTokens& special = tokenizer->special_tokens();
  EXPECT_EQ(special.cls, 259);
  EXPECT_EQ(special.pad, 260);
  EXPECT_EQ(special.sep, 261);
  EXPECT_EQ(special.unk, 262);
  EXPECT_EQ(special.mask, 263);
  EXPECT_EQ(tokenizer->end_of_text(), 261);
}

TEST(HuggingFaceTokenizerTest, NoEndOfText) {
  json file = Small();
  file["added_tokens"] = nullptr;
  EXPECT_EQ(Make(file)->end_of_text(), std::nullopt);
}

TEST(HuggingFaceTokenizerTest, UnknownBytes) {
  json file = Small();
  json& vocabulary = file["model"]["vocab"];
  // <unk> takes the id of byte 255.
  vocabulary.erase("\u00ff");
  vocabulary["<unk>"] = 255;
  EXPECT_THAT(HuggingFaceTokenizer::Parse(file.dump(), "t"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("lacks the token of byte 255")));
  file["model"]["unk_token"] = "<unk>";
  EXPECT_EQ(Encode(Make(file).get(), "a\xff\xff"), Ids({'a', 255, 255}));
  file["model"]["fuse_unk"] = true;
  EXPECT_THAT(HuggingFaceTokenizer::Parse(file.dump(), "t"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("model.fuse_unk")));
}

TEST(HuggingFaceTokenizerTest, SaveKeepsTheFile) {
  const std::string contents = Small().dump(2);
  ASSERT_OK_AND_ASSIGN(auto tokenizer,
                       HuggingFaceTokenizer::Parse(contents, "t.json"));
  TempFolder folder;
  ASSERT_OK(tokenizer->Save(folder.path()));
  ASSERT_OK_AND_ASSIGN(const std::string saved,
                       ReadFile(folder / "tokenizer.json"));
  EXPECT_EQ(saved, contents);
  ASSERT_OK_AND_ASSIGN(const std::string config,
                       ReadFile(folder / "tokenizer_config.json"));
  EXPECT_THAT(config, HasSubstr("<|endoftext|>"));
  ASSERT_OK(HuggingFaceTokenizer::Load(folder / "tokenizer.json"));
}

// A change of the small file, and the message that it is refused with.
struct Refusal {
  std::function<void(json*)> change;
  absl::StatusCode code;
  std::string message;
};

TEST(HuggingFaceTokenizerTest, RefusesWithTheMembersName) {
  constexpr auto kUnsupported = absl::StatusCode::kInvalidArgument;
  constexpr auto kMalformed = absl::StatusCode::kDataLoss;
  const std::vector<Refusal> refusals = {
      {[](json* f) { (*f)["model"]["type"] = "WordPiece"; }, kUnsupported,
       "t.json: model.type: only \"BPE\" is supported"},
      {[](json* f) {
         (*f)["normalizer"] = {{"type", "NFC"}};
       },
       kUnsupported, "t.json: normalizer: is not supported"},
      {[](json* f) { (*f)["pre_tokenizer"] = nullptr; }, kUnsupported,
       "t.json: pre_tokenizer: must be"},
      {[](json* f) {
         (*f)["pre_tokenizer"] = {{"type", "Metaspace"}};
       },
       kUnsupported, "t.json: pre_tokenizer.type: only \"ByteLevel\""},
      {[](json* f) {
         (*f)["pre_tokenizer"] = {
             {"type", "Sequence"},
             {"pretokenizers", {{{"type", "Digits"}}, {{"type", "x"}}}}};
       },
       kUnsupported, "pre_tokenizer.pretokenizers[0].type: only \"ByteLevel\""},
      {[](json* f) {
         const json part = (*f)["pre_tokenizer"];
         (*f)["pre_tokenizer"] = {{"type", "Sequence"},
                                  {"pretokenizers", {part, part}}};
       },
       kUnsupported, "pre_tokenizer.pretokenizers[1]: there may be only one"},
      {[](json* f) { (*f)["pre_tokenizer"].erase("add_prefix_space"); },
       kMalformed, "pre_tokenizer.add_prefix_space: must be true or false"},
      {[](json* f) { (*f)["pre_tokenizer"]["use_regex"] = 1; }, kMalformed,
       "pre_tokenizer.use_regex: must be true or false"},
      {[](json* f) {
         (*f)["decoder"] = {{"type", "WordPiece"}};
       },
       kUnsupported, "decoder.type"},
      {[](json* f) { (*f)["extra"] = 1; }, kUnsupported,
       "t.json: a member is not known; expected only version"},
      {[](json* f) { (*f)["model"]["extra"] = 1; }, kUnsupported,
       "t.json: model: a member is not known; expected only type"},
      {[](json* f) { (*f)["model"]["dropout"] = 0.1; }, kUnsupported,
       "model.dropout: is not supported"},
      {[](json* f) { (*f)["model"]["byte_fallback"] = true; }, kUnsupported,
       "model.byte_fallback: is not supported"},
      {[](json* f) { (*f)["model"]["ignore_merges"] = true; }, kUnsupported,
       "model.ignore_merges: is not supported"},
      {[](json* f) { (*f)["model"]["end_of_word_suffix"] = "</w>"; },
       kUnsupported, "model.end_of_word_suffix: is not supported"},
      {[](json* f) { (*f)["model"]["unk_token"] = "?!"; }, kMalformed,
       "model.unk_token: must be a token"},
      {[](json* f) { (*f)["model"] = 7; }, kMalformed, "model: must be"},
      {[](json* f) { (*f)["model"].erase("vocab"); }, kMalformed,
       "model.vocab: must be an object"},
      {[](json* f) { (*f)["model"]["vocab"]["a"] = -1; }, kMalformed,
       "model.vocab: each id must be"},
      {[](json* f) { (*f)["model"]["vocab"]["a"] = 1e9; }, kMalformed,
       "model.vocab: each id must be"},
      {[](json* f) { (*f)["model"]["vocab"]["a"] = 1u << 30; }, kMalformed,
       "model.vocab: each id must be"},
      {[](json* f) { (*f)["model"]["vocab"]["a"] = 98; }, kMalformed,
       "no token has id 97"},
      {[](json* f) { (*f)["model"]["vocab"]["new"] = 300; }, kMalformed,
       "no token has id 260"},
      {[](json* f) { (*f)["model"]["merges"] = "a b"; }, kMalformed,
       "model.merges: must be a list"},
      {[](json* f) { (*f)["model"]["merges"][1] = "a zz"; }, kMalformed,
       "model.merges[1]: its right token is not in model.vocab"},
      {[](json* f) { (*f)["model"]["merges"][2] = "b a"; }, kMalformed,
       "model.merges[2]: its joined token is not in model.vocab"},
      {[](json* f) { (*f)["model"]["merges"][2] = "ab"; }, kMalformed,
       "model.merges[2]: must be"},
      {[](json* f) {
         (*f)["model"]["merges"][0] = {"a", "b", "c"};
       },
       kMalformed, "model.merges[0]: must be"},
      {[](json* f) { (*f)["model"]["merges"][2] = "a b"; }, kMalformed,
       "model.merges[2]: this merge occurs twice"},
      {[](json* f) { (*f)["added_tokens"] = 1; }, kMalformed,
       "added_tokens: must be a list"},
      {[](json* f) { (*f)["added_tokens"][0]["single_word"] = true; },
       kUnsupported, "added_tokens[0].single_word: is not supported"},
      {[](json* f) { (*f)["added_tokens"][0]["id"] = "1"; }, kMalformed,
       "added_tokens[0].id: must be"},
      {[](json* f) { (*f)["added_tokens"][0]["content"] = ""; }, kMalformed,
       "added_tokens[0].content: must be"},
      {[](json* f) { (*f)["added_tokens"][0]["content"] = "a"; }, kMalformed,
       "added_tokens[0].id: model.vocab has another id"},
      {[](json* f) { (*f)["added_tokens"][0]["id"] = 97; }, kMalformed,
       "id 97 is that of two tokens"},
      {[](json* f) { *f = json::array({1}); }, kMalformed,
       "t.json: must be an object"},
  };
  for (const Refusal& refusal : refusals) {
    json file = Small();
    refusal.change(&file);
    EXPECT_THAT(HuggingFaceTokenizer::Parse(file.dump(), "t.json"),
                StatusIs(refusal.code, HasSubstr(refusal.message)));
  }
}

TEST(HuggingFaceTokenizerTest, MalformedFiles) {
  const std::string good = Small().dump();
  for (const std::string& contents :
       {std::string(), std::string("{"), good.substr(0, good.size() / 2),
        good + "x", std::string(100000, '['), std::string("{\"\xff\": 1}"),
        std::string("{\"model\": 1e999}")}) {
    EXPECT_THAT(HuggingFaceTokenizer::Parse(contents, "t.json"),
                StatusIs(absl::StatusCode::kDataLoss,
                         HasSubstr("t.json: malformed JSON")))
        << contents.substr(0, 50);
  }
  EXPECT_THAT(HuggingFaceTokenizer::Load("/nonexistent/tokenizer.json"),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(HuggingFaceTokenizer::Load("/dev/zero"),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace comera::trainer
