// Opens the folders of token shards that a job names.
#include "worker/trainer/data/open_token_shards.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/data/shards/shard_set.h"
#include "worker/trainer/data/tokenizer/load_tokenizer.h"
#include "worker/trainer/data/tokenizer/saved_tokenizer.h"
#include "worker/trainer/data/tokenizer/tokenizer_digest.h"

namespace comera::trainer {
namespace {

using Activity = std::function<void(const std::string&)>;
using Shards = std::shared_ptr<const ShardSet>;

constexpr double kDefaultValidationFraction = 0.01;

absl::Status InField(const char* field, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("data.token_shards.", field,
                                                  ": ", status.message()));
}

// Opens the folder of a field, which must have the tokenizer of `like` unless
// that is null.
absl::StatusOr<Shards> OpenFolder(const char* field, const std::string& folder,
                                  const ShardSet* like, FileCache* cache,
                                  const Activity& activity) {
  absl::StatusOr<Shards> shards = ShardSet::Open(folder, cache, activity);
  if (!shards.ok()) return InField(field, shards.status());
  if (like != nullptr &&
      (*shards)->index().tokenizer_digest != like->index().tokenizer_digest) {
    return InField(field, absl::InvalidArgumentError(
                              "its tokenizer is not that of the training "
                              "shards; prepare them with --tokenizer "
                              "FOLDER_OF_TRAINING_SHARDS/tokenizer"));
  }
  if (like != nullptr &&
      (*shards)->index().vocabulary_size != like->index().vocabulary_size) {
    return InField(field, absl::DataLossError(
                              "its vocabulary has another size than that of "
                              "the training shards"));
  }
  return shards;
}

// The tokenizer of a folder, which is the one that its index tells.
absl::StatusOr<std::shared_ptr<const Tokenizer>> OpenTokenizerOf(
    const ShardSet& shards) {
  const std::string folder = shards.tokenizer_folder();
  absl::StatusOr<std::string> digest = SavedTokenizerDigest(folder);
  if (!digest.ok()) return InField("train", digest.status());
  if (*digest != shards.index().tokenizer_digest) {
    return InField("train", absl::DataLossError(absl::StrCat(
                                folder,
                                ": not the tokenizer that the shards "
                                "were made with")));
  }
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      LoadSavedTokenizer(folder);
  if (!tokenizer.ok()) return InField("train", tokenizer.status());
  if ((*tokenizer)->vocabulary_size() != shards.index().vocabulary_size) {
    return InField("train", absl::DataLossError(absl::StrCat(
                                folder,
                                ": its vocabulary is not of the size "
                                "that the index tells")));
  }
  return std::shared_ptr<const Tokenizer>(*std::move(tokenizer));
}

// Checks that a job which names a tokenizer too names the same.
absl::Status CheckSame(const v1::TokenizerSpec& spec, const ShardSet& shards) {
  if (spec.kind() == v1::TokenizerSpec::KIND_UNSPECIFIED) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                   LoadTokenizer(spec));
  ASSIGN_OR_RETURN(const std::string digest, TokenizerDigest(*tokenizer));
  if (digest == shards.index().tokenizer_digest) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "data.tokenizer: not the tokenizer of data.token_shards; leave it out");
}

absl::Status CheckLabels(const char* part, const Documents& documents) {
  if (documents.labels() > 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("data.token_shards: no ", part,
                                          " token in ", documents.documents(),
                                          " documents can be predicted"));
}

// Divides the training shards.
absl::Status Split(const v1::TokenShards& spec, const Shards& train,
                   DocumentParts* parts) {
  const double fraction = spec.has_validation_fraction()
                              ? spec.validation_fraction()
                              : kDefaultValidationFraction;
  if (!(fraction > 0 && fraction < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.token_shards.validation_fraction: ", fraction,
                     " is not between 0 and 1"));
  }
  const int64_t documents = train->index().documents;
  if (documents < 2) {
    return absl::DataLossError(
        "data.token_shards.train: a document alone cannot be divided; "
        "validation names shards of their own");
  }
  // Each part gets at least one.
  const int64_t held = std::clamp<int64_t>(
      std::llround(fraction * static_cast<double>(documents)), 1,
      documents - 1);
  ASSIGN_OR_RETURN(SplitDocuments split, SplitShards(train, held));
  parts->train = std::move(split.first);
  parts->validation = std::move(split.last);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OpenedShards> OpenTokenShards(const v1::TokenShards& spec,
                                             const v1::TokenizerSpec& tokenizer,
                                             FileCache* cache,
                                             const Activity& activity) {
  if (spec.train().empty()) {
    return absl::InvalidArgumentError("data.token_shards.train: missing");
  }
  ASSIGN_OR_RETURN(const Shards train,
                   OpenFolder("train", spec.train(), nullptr, cache, activity));
  OpenedShards opened;
  ASSIGN_OR_RETURN(opened.tokenizer, OpenTokenizerOf(*train));
  RETURN_IF_ERROR(CheckSame(tokenizer, *train));
  DocumentParts& parts = opened.documents;
  if (spec.validation().empty()) {
    RETURN_IF_ERROR(Split(spec, train, &parts));
  } else {
    ASSIGN_OR_RETURN(Shards validation,
                     OpenFolder("validation", spec.validation(), train.get(),
                                cache, activity));
    parts.train = WholeShards(train);
    parts.validation = WholeShards(std::move(validation));
  }
  RETURN_IF_ERROR(CheckLabels("training", *parts.train));
  RETURN_IF_ERROR(CheckLabels("validation", *parts.validation));
  if (!spec.test().empty()) {
    ASSIGN_OR_RETURN(Shards test, OpenFolder("test", spec.test(), train.get(),
                                             cache, activity));
    parts.test = WholeShards(std::move(test));
    RETURN_IF_ERROR(CheckLabels("test", *parts.test));
  }
  return opened;
}

}  // namespace comera::trainer
