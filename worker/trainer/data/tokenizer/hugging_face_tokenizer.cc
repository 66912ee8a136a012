// Byte-level BPE as a Hugging Face tokenizer.json describes it.
#include "worker/trainer/data/tokenizer/hugging_face_tokenizer.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/data/tokenizer/byte_level.h"

namespace comera::trainer {
namespace {

constexpr int64_t kMaxFileBytes = 32 << 20;

// Id of the special token `name`, -1 if there is none.
int32_t FindSpecial(const AddedTokens& added, absl::string_view name) {
  for (const AddedToken& token : added.tokens()) {
    if (token.special && token.content == name) return token.id;
  }
  return -1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HuggingFaceTokenizer>>
HuggingFaceTokenizer::Load(const std::string& file) {
  ASSIGN_OR_RETURN(std::string contents, ReadLimited(file, kMaxFileBytes));
  return Parse(std::move(contents), file);
}

absl::StatusOr<std::unique_ptr<HuggingFaceTokenizer>>
HuggingFaceTokenizer::Parse(std::string contents, const std::string& name) {
  ASSIGN_OR_RETURN(HuggingFaceFile file, ParseHuggingFaceFile(contents, name));
  return absl::WrapUnique(
      new HuggingFaceTokenizer(std::move(contents), std::move(file)));
}

HuggingFaceTokenizer::HuggingFaceTokenizer(std::string contents,
                                           HuggingFaceFile file)
    : contents_(std::move(contents)),
      tokens_(std::move(file.vocabulary.tokens)),
      added_(std::move(file.added_tokens)),
      add_prefix_space_(file.add_prefix_space),
      use_regex_(file.use_regex),
      merger_(file.vocabulary.merges, file.byte_ids),
      kinds_(tokens_.size(), Kind::kBytes) {
  for (const AddedToken& token : added_.tokens()) {
    kinds_[token.id] = token.special ? Kind::kSpecial : Kind::kText;
  }
  for (const char* name : {"<|endoftext|>", "</s>", "<|end_of_text|>"}) {
    const int32_t id = FindSpecial(added_, name);
    if (id < 0) continue;
    end_of_text_ = id;
    break;
  }
  special_.cls = FindSpecial(added_, "<s>");
  special_.sep = FindSpecial(added_, "</s>");
  special_.mask = FindSpecial(added_, "<mask>");
  special_.unk =
      file.unknown >= 0 ? file.unknown : FindSpecial(added_, "<unk>");
  special_.pad = FindSpecial(added_, "<pad>");
  if (special_.pad < 0) special_.pad = end_of_text_.value_or(0);
}

void HuggingFaceTokenizer::EncodePart(absl::string_view part,
                                      std::vector<int32_t>* ids) {
  std::string prefixed;
  if (add_prefix_space_ && part[0] != ' ') {
    prefixed = absl::StrCat(" ", part);
    part = prefixed;
  }
  if (!use_regex_) {
    merger_.Append(part, ids);
    return;
  }
  WordSplitter splitter(part);
  absl::string_view word;
  while (splitter.Next(&word)) merger_.Append(word, ids);
}

void HuggingFaceTokenizer::Encode(absl::string_view text,
                                  std::vector<int32_t>* ids) {
  added_.Split(text, [&](absl::string_view part, int32_t id) {
    if (id >= 0) {
      ids->push_back(id);
    } else {
      EncodePart(part, ids);
    }
  });
}

void HuggingFaceTokenizer::AppendBytes(int32_t id, std::string* bytes) const {
  switch (kinds_[id]) {
    case Kind::kBytes:
      AppendTokenBytes(tokens_[id], bytes);
      return;
    case Kind::kText:
      bytes->append(tokens_[id]);
      return;
    case Kind::kSpecial:
      return;
  }
}

absl::Status HuggingFaceTokenizer::Save(const std::string& directory) const {
  RETURN_IF_ERROR(
      WriteFileAtomically(directory + "/tokenizer.json", contents_));
  nlohmann::ordered_json config = {
      {"tokenizer_class", "PreTrainedTokenizerFast"}};
  if (end_of_text_.has_value()) config["eos_token"] = tokens_[*end_of_text_];
  return WriteFileAtomically(directory + "/tokenizer_config.json",
                             JsonText(config) + "\n");
}

}  // namespace comera::trainer
