// Writes tokenizer.json and tokenizer_config.json of the tokenizers library.
#include "worker/trainer/export/hf_tokenizer.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/files.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "worker/trainer/data/tokenizer/saved_tokenizer.h"

namespace comera::trainer {
namespace {

// Objects of unordered members: those of ordered_json are searched one by one,
// which a vocabulary is too large for.
using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// Words above this are unknown to WordPiece.
constexpr int kMaxWordCharacters = 100;

// Everything about a tokenizer.json.
struct File {
  Json normalizer, pre_tokenizer, post_processor, decoder, model;
  // Members of tokenizer_config.json.
  OrderedJson config;
};

Json Vocabulary(const Tokenizer& tokenizer) {
  Json vocabulary = Json::object();
  for (int32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    vocabulary[tokenizer.Token(id)] = id;
  }
  return vocabulary;
}

// The special tokens, which are found in a text before anything else. RoBERTa's
// mask takes the space before it, as the word would.
Json AddedTokens(const Tokenizer& tokenizer, bool mask_takes_space) {
  const SpecialTokens& special = tokenizer.special_tokens();
  Json tokens = Json::array();
  for (int32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    if (!special.Contains(id)) continue;
    tokens.push_back({{"id", id},
                      {"content", tokenizer.Token(id)},
                      {"single_word", false},
                      {"lstrip", mask_takes_space && id == special.mask},
                      {"rstrip", false},
                      {"normalized", false},
                      {"special", true}});
  }
  return tokens;
}

Json BytePairModel(const Json& vocabulary, Json merges) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", "<unk>"},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"vocab", vocabulary},
          {"merges", std::move(merges)}};
}

// The lines of merges.txt, each "left right".
absl::StatusOr<Json> ReadMerges(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  Json merges = Json::array();
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (line.empty() || absl::StartsWith(line, "#version")) continue;
    merges.push_back(std::string(line));
  }
  return merges;
}

// The names of a tokenizer's special tokens, as the configuration has them.
void AddNames(const Tokenizer& tokenizer, OrderedJson* config) {
  const SpecialTokens& special = tokenizer.special_tokens();
  const auto add = [&](const char* field, int32_t id) {
    if (id >= 0) (*config)[field] = tokenizer.Token(id);
  };
  if (tokenizer.has_segments()) {
    add("cls_token", special.cls);
    add("sep_token", special.sep);
  } else {
    add("bos_token", special.cls);
    add("eos_token", special.sep);
  }
  add("unk_token", special.unk);
  add("pad_token", special.pad);
  add("mask_token", special.mask);
}

absl::StatusOr<File> BytePairs(const Tokenizer& tokenizer, bool causal,
                               const std::string& folder) {
  ASSIGN_OR_RETURN(Json merges, ReadMerges(folder + "/merges.txt"));
  const SpecialTokens& special = tokenizer.special_tokens();
  const Json bytes = {{"type", "ByteLevel"},
                      {"add_prefix_space", false},
                      {"trim_offsets", true},
                      {"use_regex", true}};
  File file;
  file.pre_tokenizer = bytes;
  file.decoder = bytes;
  file.model = BytePairModel(Vocabulary(tokenizer), std::move(merges));
  file.config = {
      {"tokenizer_class", causal ? "GPT2Tokenizer" : "RobertaTokenizer"}};
  file.config["add_prefix_space"] = false;
  if (causal) return file;
  file.post_processor = {{"type", "RobertaProcessing"},
                         {"sep", {tokenizer.Token(special.sep), special.sep}},
                         {"cls", {tokenizer.Token(special.cls), special.cls}},
                         {"trim_offsets", true},
                         {"add_prefix_space", false}};
  return file;
}

File Wordpieces(const Tokenizer& tokenizer, bool causal, bool lowercase) {
  const SpecialTokens& special = tokenizer.special_tokens();
  File file;
  file.normalizer = {{"type", "BertNormalizer"},
                     {"clean_text", true},
                     {"handle_chinese_chars", true},
                     {"strip_accents", nullptr},
                     {"lowercase", lowercase}};
  file.pre_tokenizer = {{"type", "BertPreTokenizer"}};
  file.decoder = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  file.model = {{"type", "WordPiece"},
                {"unk_token", tokenizer.Token(special.unk)},
                {"continuing_subword_prefix", "##"},
                {"max_input_chars_per_word", kMaxWordCharacters},
                {"vocab", Vocabulary(tokenizer)}};
  file.config = {
      {"tokenizer_class", causal ? "PreTrainedTokenizerFast" : "BertTokenizer"},
      {"do_lower_case", lowercase}};
  if (causal) return file;
  file.post_processor = {{"type", "BertProcessing"},
                         {"sep", {tokenizer.Token(special.sep), special.sep}},
                         {"cls", {tokenizer.Token(special.cls), special.cls}}};
  return file;
}

// Byte pairs without merges: every character is a token or unknown.
File Characters(const Tokenizer& tokenizer) {
  File file;
  file.decoder = {{"type", "Fuse"}};
  file.model = BytePairModel(Vocabulary(tokenizer), Json::array());
  file.config = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  return file;
}

}  // namespace

absl::Status WriteHuggingFaceTokenizer(const Tokenizer& tokenizer, bool causal,
                                       const std::string& to) {
  RETURN_IF_ERROR(tokenizer.Save(to));
  ASSIGN_OR_RETURN(const v1::TokenizerSpec saved, FindSavedTokenizer(to));
  File file;
  switch (saved.kind()) {
    case v1::TokenizerSpec::BYTE_BPE: {
      ASSIGN_OR_RETURN(file, BytePairs(tokenizer, causal, to));
      break;
    }
    case v1::TokenizerSpec::WORDPIECE:
      file = Wordpieces(tokenizer, causal, saved.lowercase());
      break;
    case v1::TokenizerSpec::CHARACTERS:
      file = Characters(tokenizer);
      break;
    default:
      return absl::OkStatus();
  }
  AddNames(tokenizer, &file.config);
  file.config["clean_up_tokenization_spaces"] = false;
  const bool mask_takes_space = !causal && !tokenizer.has_segments();
  const Json json = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", AddedTokens(tokenizer, mask_takes_space)},
                     {"normalizer", file.normalizer},
                     {"pre_tokenizer", file.pre_tokenizer},
                     {"post_processor", file.post_processor},
                     {"decoder", file.decoder},
                     {"model", file.model}};
  RETURN_IF_ERROR(
      WriteFileAtomically(to + "/tokenizer.json", JsonText(json) + "\n"));
  return WriteFileAtomically(to + "/tokenizer_config.json",
                             JsonText(file.config, 2) + "\n");
}

}  // namespace comera::trainer
