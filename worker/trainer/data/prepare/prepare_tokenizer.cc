// Opens or trains the tokenizer of a corpus that is to be tokenised.
#include "worker/trainer/data/prepare/prepare_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "worker/trainer/data/corpus/corpus.h"
#include "worker/trainer/data/random/text_hash.h"
#include "worker/trainer/data/source/cache_file.h"
#include "worker/trainer/data/source/text.h"
#include "worker/trainer/data/tokenizer/load_tokenizer.h"
#include "worker/trainer/data/tokenizer/saved_tokenizer.h"
#include "worker/trainer/data/tokenizer/tokenizer_source.h"

namespace comera::trainer {
namespace {

using Activity = std::function<absl::Status(const std::string&)>;

// Chosen documents of sources, as the training part of a corpus.
class SampledCorpus : public Corpus {
 public:
  SampledCorpus(const std::vector<SourceFile>& sources,
                const DocumentStream::Options& options, double share,
                int64_t most_bytes, const Activity& activity)
      : sources_(sources),
        options_(options),
        share_(share),
        most_bytes_(most_bytes),
        activity_(activity) {}

  absl::Status Read(Part /*part*/,
                    const std::function<absl::Status(const CorpusText&)>& visit)
      const override {
    DocumentStream stream(&sources_, options_);
    std::string document;
    int64_t bytes = 0;
    while (bytes < most_bytes_) {
      ASSIGN_OR_RETURN(const bool more, stream.Next(&document));
      if (!more) return absl::OkStatus();
      const int64_t number = stream.position().documents;
      if (number % 1024 == 0) {
        RETURN_IF_ERROR(activity_(absl::StrCat(
            "reading texts for the vocabulary, ", number, " documents")));
      }
      if (number > 1 && SplitPoint(HashText(document)) >= share_) continue;
      CorpusText text;
      text.first = document;
      RETURN_IF_ERROR(visit(text));
      bytes += static_cast<int64_t>(document.size());
    }
    return absl::OkStatus();
  }
  const std::string& fingerprint() const override { return fingerprint_; }

 private:
  const std::vector<SourceFile>& sources_;
  const DocumentStream::Options& options_;
  const double share_;
  const int64_t most_bytes_;  // read at most, but for the last text
  const Activity& activity_;
  const std::string fingerprint_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizerAt(
    const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return LoadSavedTokenizer(path);
  }
  const size_t slash = path.rfind('/');
  const std::string name =
      slash == std::string::npos ? path : path.substr(slash + 1);
  const std::string folder =
      slash == std::string::npos ? "." : path.substr(0, slash + 1);
  v1::TokenizerSpec spec;
  if (absl::EndsWith(name, ".model")) {
    spec.set_kind(v1::TokenizerSpec::SENTENCEPIECE);
    spec.set_tokenizer_file(path);
  } else if (name == "characters.json") {
    spec.set_kind(v1::TokenizerSpec::CHARACTERS);
    spec.set_vocabulary_file(path);
  } else if (name == "vocab.json" || name == "merges.txt") {
    spec.set_kind(v1::TokenizerSpec::BYTE_BPE);
    spec.set_vocabulary_file(folder + "/vocab.json");
    spec.set_merges_file(folder + "/merges.txt");
  } else if (absl::EndsWith(name, ".json")) {
    spec.set_kind(v1::TokenizerSpec::HUGGING_FACE);
    spec.set_tokenizer_file(path);
  } else if (name == "vocab.txt") {
    // tokenizer_config.json beside it tells whether it is of lower case.
    ASSIGN_OR_RETURN(spec, FindSavedTokenizer(folder));
    if (spec.kind() != v1::TokenizerSpec::WORDPIECE) {
      return absl::InvalidArgumentError(absl::StrCat(
          PrintablePath(path), ": beside vocab.json, whose vocabulary is it?"));
    }
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        PrintablePath(path),
        ": no tokenizer: expected a folder, tokenizer.json, tokenizer.model, "
        "vocab.json, vocab.txt or characters.json"));
  }
  return LoadTokenizer(spec);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> TrainTokenizer(
    const v1::TokenizerSpec& spec, const std::vector<SourceFile>& sources,
    const DocumentStream::Options& options, int64_t max_bytes,
    const Activity& activity) {
  int64_t bytes = 0;
  for (const SourceFile& source : sources) bytes += source.size_bytes;
  // Any document may hold a character that the others lack.
  const bool characters = spec.kind() == v1::TokenizerSpec::CHARACTERS;
  const bool all = characters || bytes <= max_bytes;
  // The sources' sizes are those of packed files.
  constexpr int64_t kUnpacked = 8;
  const SampledCorpus corpus(
      sources, options,
      all ? 1.0 : static_cast<double>(max_bytes) / static_cast<double>(bytes),
      characters ? std::numeric_limits<int64_t>::max()
                 : kUnpacked * std::min(max_bytes, int64_t{1} << 40),
      activity);
  FileCache no_cache("", nullptr);
  absl::Status told;
  ASSIGN_OR_RETURN(
      OpenedTokenizer opened,
      OpenTokenizer(spec, corpus, &no_cache, [&](const std::string& what) {
        if (told.ok()) told = activity(what);
      }));
  RETURN_IF_ERROR(told);
  return std::move(opened.tokenizer);
}

}  // namespace comera::trainer
