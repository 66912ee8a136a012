// Reads and checks a tokenizer.json.
#include "worker/trainer/data/tokenizer/hugging_face_file.h"

#include <cstddef>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/text.h"
#include "worker/trainer/data/tokenizer/byte_level.h"
#include "worker/trainer/data/tokenizer/json_members.h"

namespace comera::trainer {
namespace {

using nlohmann::json;

constexpr size_t kMaxTokens = 4 << 20;
constexpr size_t kMaxAddedTokens = 64 << 10;
constexpr size_t kMaxAddedTokenBytes = 1 << 10;

// One of the three tokens that a merge names.
struct Part {
  const char* what;
  const std::string* token;
  int32_t* id;
};

class Reader {
 public:
  // `name` outlives the reader.
  explicit Reader(const std::string& name) : members_(name) {}

  absl::StatusOr<HuggingFaceFile> Read(const json& root);

 private:
  absl::Status ReadByteLevel(const json& value, const std::string& path);
  absl::Status ReadPreTokenizer(const json& value);
  absl::Status CheckDecoder(const json& value) const;
  absl::Status ReadModel(const json& model);
  absl::Status ReadVocabulary(const json& vocabulary);
  absl::Status ReadMerges(const json& merges);
  absl::StatusOr<BytePairVocabulary::Merge> ReadMerge(const json& value) const;
  absl::Status ReadAddedTokens(const json& tokens);
  absl::StatusOr<AddedToken> ReadAddedToken(const json& value,
                                            const std::string& path) const;
  absl::Status PlaceTokens();
  absl::Status FindByteIds(bool fuse_unknown);

  const JsonMembers members_;
  HuggingFaceFile file_;
  // Tokens of model.vocab.
  absl::flat_hash_map<std::string, int32_t> ids_;
};

absl::Status Reader::ReadByteLevel(const json& value, const std::string& path) {
  if (!value.is_object()) return members_.Malformed(path, "must be an object");
  const json& type = JsonMembers::Member(value, "type");
  if (type != "ByteLevel") {
    return members_.Unsupported(path + ".type",
                                "only \"ByteLevel\" is supported");
  }
  const std::string prefix = path + ".";
  RETURN_IF_ERROR(members_.CheckKnown(
      value, prefix,
      {"type", "add_prefix_space", "trim_offsets", "use_regex"}));
  if (JsonMembers::Member(value, "add_prefix_space").is_null()) {
    return members_.Malformed(prefix + "add_prefix_space",
                              "must be true or false");
  }
  ASSIGN_OR_RETURN(file_.add_prefix_space,
                   members_.Bool(value, prefix, "add_prefix_space", false));
  ASSIGN_OR_RETURN(file_.use_regex,
                   members_.Bool(value, prefix, "use_regex", true));
  return absl::OkStatus();
}

absl::Status Reader::ReadPreTokenizer(const json& value) {
  const std::string path = "pre_tokenizer";
  if (!value.is_object()) {
    return members_.Unsupported(path, "must be a \"ByteLevel\"");
  }
  if (JsonMembers::Member(value, "type") != "Sequence")
    return ReadByteLevel(value, path);
  RETURN_IF_ERROR(
      members_.CheckKnown(value, path + ".", {"type", "pretokenizers"}));
  const json& parts = JsonMembers::Member(value, "pretokenizers");
  if (!parts.is_array() || parts.empty()) {
    return members_.Malformed(path + ".pretokenizers", "must be a list");
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string part = absl::StrCat(path, ".pretokenizers[", i, "]");
    RETURN_IF_ERROR(ReadByteLevel(parts[i], part));
    if (i > 0) return members_.Unsupported(part, "there may be only one");
  }
  return absl::OkStatus();
}

absl::Status Reader::CheckDecoder(const json& value) const {
  if (value.is_null()) return absl::OkStatus();
  if (!value.is_object())
    return members_.Malformed("decoder", "must be an object");
  if (JsonMembers::Member(value, "type") == "ByteLevel")
    return absl::OkStatus();
  return members_.Unsupported("decoder.type",
                              "only \"ByteLevel\" is supported");
}

absl::Status Reader::ReadVocabulary(const json& vocabulary) {
  const absl::string_view path = "model.vocab";
  if (!vocabulary.is_object() || vocabulary.empty()) {
    return members_.Malformed(path, "must be an object of tokens and ids");
  }
  if (vocabulary.size() > kMaxTokens)
    return members_.Malformed(path, "too many tokens");
  for (const auto& [token, id] : vocabulary.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= kMaxTokens) {
      return members_.Malformed(path,
                                absl::StrCat("each id must be a whole number "
                                             "from 0 to ",
                                             kMaxTokens - 1));
    }
    ids_.emplace(token, static_cast<int32_t>(id.get<uint64_t>()));
  }
  return absl::OkStatus();
}

absl::StatusOr<BytePairVocabulary::Merge> Reader::ReadMerge(
    const json& value) const {
  std::string left, right;
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string::npos) {
      left = text.substr(0, space);
      right = text.substr(space + 1);
    }
  } else if (value.is_array() && value.size() == 2 && value[0].is_string() &&
             value[1].is_string()) {
    left = value[0].get<std::string>();
    right = value[1].get<std::string>();
  }
  if (left.empty() || right.empty()) {
    return absl::DataLossError(
        "must be \"left right\" or [\"left\", \"right\"]");
  }
  BytePairVocabulary::Merge merge;
  const std::string joined = left + right;
  for (const auto& [what, token, id] :
       {Part{"left", &left, &merge.left}, Part{"right", &right, &merge.right},
        Part{"joined", &joined, &merge.result}}) {
    const auto found = ids_.find(*token);
    if (found == ids_.end()) {
      return absl::DataLossError(
          absl::StrCat("its ", what, " token is not in model.vocab"));
    }
    *id = found->second;
  }
  return merge;
}

absl::Status Reader::ReadMerges(const json& merges) {
  if (!merges.is_array())
    return members_.Malformed("model.merges", "must be a list");
  if (merges.size() > kMaxTokens) {
    return members_.Malformed("model.merges", "too many merges");
  }
  absl::flat_hash_set<std::pair<int32_t, int32_t>> pairs;
  for (size_t i = 0; i < merges.size(); ++i) {
    absl::StatusOr<BytePairVocabulary::Merge> merge = ReadMerge(merges[i]);
    if (merge.ok() && !pairs.insert({merge->left, merge->right}).second) {
      merge = absl::DataLossError("this merge occurs twice");
    }
    if (!merge.ok()) {
      return members_.Malformed(absl::StrCat("model.merges[", i, "]"),
                                merge.status().message());
    }
    file_.vocabulary.merges.push_back(*merge);
  }
  return absl::OkStatus();
}

absl::StatusOr<AddedToken> Reader::ReadAddedToken(
    const json& value, const std::string& path) const {
  if (!value.is_object()) return members_.Malformed(path, "must be an object");
  const std::string prefix = path + ".";
  RETURN_IF_ERROR(members_.CheckKnown(value, prefix,
                                      {"id", "content", "single_word", "lstrip",
                                       "rstrip", "normalized", "special"}));
  RETURN_IF_ERROR(members_.CheckUnset(value, prefix, "single_word"));
  AddedToken token;
  const json& id = JsonMembers::Member(value, "id");
  if (!id.is_number_unsigned() || id.get<uint64_t>() >= kMaxTokens) {
    return members_.Malformed(
        prefix + "id",
        absl::StrCat("must be a whole number from 0 to ", kMaxTokens - 1));
  }
  token.id = static_cast<int32_t>(id.get<uint64_t>());
  const json& content = JsonMembers::Member(value, "content");
  if (content.is_string()) token.content = content.get<std::string>();
  if (token.content.empty() || token.content.size() > kMaxAddedTokenBytes) {
    return members_.Malformed(
        prefix + "content",
        absl::StrCat("must be a text of 1 to ", kMaxAddedTokenBytes, " bytes"));
  }
  ASSIGN_OR_RETURN(token.strips_left,
                   members_.Bool(value, prefix, "lstrip", false));
  ASSIGN_OR_RETURN(token.strips_right,
                   members_.Bool(value, prefix, "rstrip", false));
  ASSIGN_OR_RETURN(token.special,
                   members_.Bool(value, prefix, "special", false));
  ASSIGN_OR_RETURN(token.normalized,
                   members_.Bool(value, prefix, "normalized", !token.special));
  const auto found = ids_.find(token.content);
  if (found != ids_.end() && found->second != token.id) {
    return members_.Malformed(prefix + "id",
                              "model.vocab has another id for this token");
  }
  return token;
}

absl::Status Reader::ReadAddedTokens(const json& tokens) {
  if (tokens.is_null()) return absl::OkStatus();
  if (!tokens.is_array())
    return members_.Malformed("added_tokens", "must be a list");
  if (tokens.size() > kMaxAddedTokens) {
    return members_.Malformed("added_tokens", "too many tokens");
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    ASSIGN_OR_RETURN(
        AddedToken token,
        ReadAddedToken(tokens[i], absl::StrCat("added_tokens[", i, "]")));
    file_.added_tokens.push_back(std::move(token));
  }
  return absl::OkStatus();
}

absl::Status Reader::PlaceTokens() {
  std::vector<std::pair<int32_t, absl::string_view>> all;
  for (const auto& [token, id] : ids_) all.emplace_back(id, token);
  for (const AddedToken& token : file_.added_tokens) {
    if (!ids_.contains(token.content))
      all.emplace_back(token.id, token.content);
  }
  absl::c_sort(all);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& [id, token] = all[i];
    if (i > 0 && all[i - 1].first == id) {
      return members_.Malformed(
          "model.vocab, added_tokens",
          absl::StrCat("id ", id, " is that of two tokens"));
    }
    if (static_cast<size_t>(id) != i) {
      return members_.Malformed("model.vocab, added_tokens",
                                absl::StrCat("no token has id ", i));
    }
    file_.vocabulary.tokens.emplace_back(token);
  }
  return absl::OkStatus();
}

absl::Status Reader::FindByteIds(bool fuse_unknown) {
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = ids_.find(ByteCharacters()[byte]);
    file_.byte_ids[byte] = found == ids_.end() ? file_.unknown : found->second;
    if (found != ids_.end()) continue;
    if (file_.unknown < 0) {
      return members_.Unsupported(
          "model.vocab", absl::StrCat("lacks the token of byte ", byte,
                                      ", and model.unk_token names none"));
    }
    if (fuse_unknown) {
      return members_.Unsupported(
          "model.fuse_unk",
          absl::StrCat("is not supported where model.vocab lacks bytes, here ",
                       byte));
    }
  }
  return absl::OkStatus();
}

absl::Status Reader::ReadModel(const json& model) {
  if (!model.is_object())
    return members_.Malformed("model", "must be an object");
  const json& type = JsonMembers::Member(model, "type");
  if (!type.is_null() && type != "BPE") {
    return members_.Unsupported("model.type", "only \"BPE\" is supported");
  }
  const std::string path = "model.";
  RETURN_IF_ERROR(members_.CheckKnown(
      model, path,
      {"type", "dropout", "unk_token", "continuing_subword_prefix",
       "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges",
       "vocab", "merges"}));
  for (const char* key :
       {"dropout", "continuing_subword_prefix", "end_of_word_suffix",
        "byte_fallback", "ignore_merges"}) {
    RETURN_IF_ERROR(members_.CheckUnset(model, path, key));
  }
  RETURN_IF_ERROR(ReadVocabulary(JsonMembers::Member(model, "vocab")));
  RETURN_IF_ERROR(ReadMerges(JsonMembers::Member(model, "merges")));
  const json& unknown = JsonMembers::Member(model, "unk_token");
  if (!unknown.is_null()) {
    const auto found = unknown.is_string()
                           ? ids_.find(unknown.get_ref<const std::string&>())
                           : ids_.end();
    if (found == ids_.end()) {
      return members_.Malformed("model.unk_token",
                                "must be a token of model.vocab");
    }
    file_.unknown = found->second;
  }
  ASSIGN_OR_RETURN(const bool fuse_unknown,
                   members_.Bool(model, path, "fuse_unk", false));
  return FindByteIds(fuse_unknown);
}

absl::StatusOr<HuggingFaceFile> Reader::Read(const json& root) {
  if (root.is_discarded()) return members_.Malformed("", "malformed JSON");
  if (!root.is_object()) return members_.Malformed("", "must be an object");
  RETURN_IF_ERROR(members_.CheckKnown(
      root, "",
      {"version", "truncation", "padding", "added_tokens", "normalizer",
       "pre_tokenizer", "post_processor", "decoder", "model"}));
  RETURN_IF_ERROR(members_.CheckUnset(root, "", "normalizer"));
  RETURN_IF_ERROR(ReadPreTokenizer(JsonMembers::Member(root, "pre_tokenizer")));
  RETURN_IF_ERROR(CheckDecoder(JsonMembers::Member(root, "decoder")));
  RETURN_IF_ERROR(ReadModel(JsonMembers::Member(root, "model")));
  RETURN_IF_ERROR(ReadAddedTokens(JsonMembers::Member(root, "added_tokens")));
  RETURN_IF_ERROR(PlaceTokens());
  return std::move(file_);
}

}  // namespace

absl::StatusOr<HuggingFaceFile> ParseHuggingFaceFile(absl::string_view json,
                                                     const std::string& name) {
  return Reader(name).Read(ParseJson(json));
}

}  // namespace comera::trainer
