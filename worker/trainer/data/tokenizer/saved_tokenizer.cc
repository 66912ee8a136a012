// Recognises and loads a tokenizer from a folder.
#include "worker/trainer/data/tokenizer/saved_tokenizer.h"

#include <cstdint>
#include <filesystem>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/data/source/text.h"
#include "worker/trainer/data/tokenizer/load_tokenizer.h"

namespace comera::trainer {
namespace {

constexpr int64_t kMaxConfigBytes = 1 << 20;

// Looks for one member of the outermost object, and keeps nothing else: the
// file may be anyone's.
class LowerCaseReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::optional<bool> found() const { return found_; }

  bool boolean(bool value) override {
    if (depth_ == 1 && asked_) found_ = value;
    return true;
  }
  bool key(string_t& name) override {
    asked_ = name == "do_lower_case";
    return true;
  }
  bool start_object(size_t) override { return ++depth_ <= 64; }
  bool end_object() override { return --depth_ >= 0; }
  bool start_array(size_t) override { return ++depth_ <= 64; }
  bool end_array() override { return --depth_ >= 0; }
  bool null() override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool parse_error(size_t, const std::string&,
                   const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  int depth_ = 0;
  bool asked_ = false;
  std::optional<bool> found_;
};

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// Whether the words of vocab.txt are lower-case.
absl::StatusOr<bool> IsLowerCase(const std::string& directory) {
  const std::string config = absl::StrCat(directory, "/tokenizer_config.json");
  const absl::StatusOr<std::string> json = ReadLimited(config, kMaxConfigBytes);
  if (absl::IsNotFound(json.status())) return true;
  RETURN_IF_ERROR(json.status());
  LowerCaseReader reader;
  if (!nlohmann::json::sax_parse(*json, &reader)) {
    return absl::DataLossError(
        absl::StrCat(PrintablePath(config), ": malformed JSON"));
  }
  return reader.found().value_or(true);
}

}  // namespace

absl::StatusOr<v1::TokenizerSpec> FindSavedTokenizer(
    const std::string& directory) {
  v1::TokenizerSpec spec;
  const auto has = [&](const char* name) {
    return Exists(absl::StrCat(directory, "/", name));
  };
  if (has("vocab.json")) {
    spec.set_kind(v1::TokenizerSpec::BYTE_BPE);
    spec.set_vocabulary_file(absl::StrCat(directory, "/vocab.json"));
    spec.set_merges_file(absl::StrCat(directory, "/merges.txt"));
  } else if (has("vocab.txt")) {
    spec.set_kind(v1::TokenizerSpec::WORDPIECE);
    spec.set_vocabulary_file(absl::StrCat(directory, "/vocab.txt"));
    ASSIGN_OR_RETURN(const bool lowercase, IsLowerCase(directory));
    spec.set_lowercase(lowercase);
  } else if (has("characters.json")) {
    // An exported folder also has them as a tokenizer.json for others, which
    // is not of the kind that is read here.
    spec.set_kind(v1::TokenizerSpec::CHARACTERS);
    spec.set_vocabulary_file(absl::StrCat(directory, "/characters.json"));
  } else if (has("tokenizer.json")) {
    spec.set_kind(v1::TokenizerSpec::HUGGING_FACE);
    spec.set_tokenizer_file(absl::StrCat(directory, "/tokenizer.json"));
  } else if (has("tokenizer.model")) {
    spec.set_kind(v1::TokenizerSpec::SENTENCEPIECE);
    spec.set_tokenizer_file(absl::StrCat(directory, "/tokenizer.model"));
  } else {
    return absl::NotFoundError(absl::StrCat(
        PrintablePath(directory),
        ": no tokenizer: none of vocab.txt, vocab.json, tokenizer.json, "
        "tokenizer.model and characters.json is there"));
  }
  return spec;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadSavedTokenizer(
    const std::string& directory) {
  ASSIGN_OR_RETURN(const v1::TokenizerSpec spec, FindSavedTokenizer(directory));
  return LoadTokenizer(spec);
}

}  // namespace comera::trainer
