// Reads and writes the index of a folder of token shards.
#include "worker/trainer/data/shards/shard_index.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "worker/trainer/data/shards/shard_layout.h"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr char kFormat[] = "comera-token-shards";
constexpr int kVersion = 1;
constexpr int64_t kMaxIndexBytes = 512 << 20;
constexpr size_t kMaxShards = 1 << 20;
constexpr int64_t kMaxCount = int64_t{1} << 60;

// A count that is there.
absl::StatusOr<int64_t> Count(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_unsigned() ||
      found->get<uint64_t>() > kMaxCount) {
    return absl::DataLossError(absl::StrCat(key, ": expected a count"));
  }
  return static_cast<int64_t>(found->get<uint64_t>());
}

absl::StatusOr<std::string> Digest(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_string()) {
    return absl::DataLossError(absl::StrCat(key, ": expected a digest"));
  }
  std::string digest = found->get<std::string>();
  if (digest.size() != 64 ||
      !std::all_of(digest.begin(), digest.end(), [](char c) {
        return absl::ascii_isxdigit(static_cast<unsigned char>(c));
      })) {
    return absl::DataLossError(absl::StrCat(key, ": expected a digest"));
  }
  return digest;
}

absl::Status CheckSums(const ShardIndex& index) {
  int64_t documents = 0, tokens = 0, text_bytes = 0;
  for (const ShardEntry& shard : index.shards) {
    // Each is at most 2^40 or 2^60, so the running sums are checked as they
    // grow.
    documents += shard.documents;
    tokens += shard.tokens;
    text_bytes += shard.text_bytes;
    if (documents > kMaxCount || tokens > kMaxCount || text_bytes > kMaxCount) {
      return absl::DataLossError("shards: impossible counts");
    }
  }
  int64_t labels = 0;
  for (const int64_t count : index.label_counts) {
    if (count > index.tokens - labels) {
      return absl::DataLossError("label_counts: more than there are tokens");
    }
    labels += count;
  }
  if (documents != index.documents || tokens != index.tokens ||
      text_bytes != index.text_bytes || documents > tokens ||
      labels != tokens - documents) {
    return absl::DataLossError("counts disagree");
  }
  return absl::OkStatus();
}

absl::StatusOr<ShardIndex> Parse(const Json& json) {
  if (!json.is_object() || json.value("format", Json()) != kFormat) {
    return absl::DataLossError("not an index of token shards");
  }
  if (json.value("version", Json()) != kVersion) {
    return absl::DataLossError(
        "token shards of another version; prepare them anew");
  }
  ShardIndex index;
  ASSIGN_OR_RETURN(index.made_from, Digest(json, "made_from"));
  ASSIGN_OR_RETURN(index.sources, Digest(json, "sources"));
  ASSIGN_OR_RETURN(index.tokenizer_digest, Digest(json, "tokenizer_sha256"));
  ASSIGN_OR_RETURN(index.vocabulary_size, Count(json, "vocabulary_size"));
  ASSIGN_OR_RETURN(index.documents, Count(json, "documents"));
  ASSIGN_OR_RETURN(index.tokens, Count(json, "tokens"));
  ASSIGN_OR_RETURN(index.text_bytes, Count(json, "text_bytes"));
  ASSIGN_OR_RETURN(index.skipped_rows, Count(json, "skipped_rows"));
  ASSIGN_OR_RETURN(index.duplicates, Count(json, "duplicates"));
  if (index.vocabulary_size == 0 ||
      index.vocabulary_size > ShardLayout::kMaxVocabulary) {
    return absl::DataLossError("vocabulary_size: impossible");
  }
  const Json counts = json.value("label_counts", Json());
  if (!counts.is_array() ||
      counts.size() != static_cast<size_t>(index.vocabulary_size)) {
    return absl::DataLossError("label_counts: expected one per token");
  }
  for (const Json& count : counts) {
    if (!count.is_number_unsigned() || count.get<uint64_t>() > kMaxCount) {
      return absl::DataLossError("label_counts: expected counts");
    }
    index.label_counts.push_back(static_cast<int64_t>(count.get<uint64_t>()));
  }
  const Json shards = json.value("shards", Json());
  if (!shards.is_array() || shards.size() > kMaxShards) {
    return absl::DataLossError("shards: expected an array");
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    ASSIGN_OR_RETURN(ShardEntry entry,
                     ParseShardEntry(shards[i], static_cast<int64_t>(i)));
    index.shards.push_back(std::move(entry));
  }
  RETURN_IF_ERROR(CheckSums(index));
  return index;
}

}  // namespace

std::string ShardFileName(int64_t number) {
  return absl::StrFormat("shard-%06d.tokens", number);
}

OrderedJson ToJson(const ShardEntry& entry, int64_t number) {
  return {{"file", ShardFileName(number)},  {"sha256", entry.sha256},
          {"size_bytes", entry.size_bytes}, {"documents", entry.documents},
          {"tokens", entry.tokens},         {"text_bytes", entry.text_bytes}};
}

absl::StatusOr<ShardEntry> ParseShardEntry(const Json& json, int64_t number) {
  // A name of another file could lead out of the folder.
  if (!json.is_object() ||
      json.value("file", Json()) != ShardFileName(number)) {
    return absl::DataLossError(
        absl::StrCat("shards: expected ", ShardFileName(number)));
  }
  ShardEntry entry;
  ASSIGN_OR_RETURN(entry.sha256, Digest(json, "sha256"));
  ASSIGN_OR_RETURN(entry.size_bytes, Count(json, "size_bytes"));
  ASSIGN_OR_RETURN(entry.documents, Count(json, "documents"));
  ASSIGN_OR_RETURN(entry.tokens, Count(json, "tokens"));
  ASSIGN_OR_RETURN(entry.text_bytes, Count(json, "text_bytes"));
  return entry;
}

std::string ShardIndexText(const ShardIndex& index) {
  OrderedJson shards = OrderedJson::array();
  for (size_t i = 0; i < index.shards.size(); ++i) {
    shards.push_back(ToJson(index.shards[i], static_cast<int64_t>(i)));
  }
  const OrderedJson json = {{"format", kFormat},
                            {"version", kVersion},
                            {"made_from", index.made_from},
                            {"sources", index.sources},
                            {"tokenizer_sha256", index.tokenizer_digest},
                            {"vocabulary_size", index.vocabulary_size},
                            {"documents", index.documents},
                            {"tokens", index.tokens},
                            {"text_bytes", index.text_bytes},
                            {"skipped_rows", index.skipped_rows},
                            {"duplicates", index.duplicates},
                            {"shards", shards},
                            {"label_counts", index.label_counts}};
  return JsonText(json) + "\n";
}

absl::StatusOr<ShardIndex> ParseShardIndex(absl::string_view json,
                                           const std::string& name) {
  absl::StatusOr<ShardIndex> index = Parse(ParseJson(json, /*max_depth=*/4));
  if (index.ok()) return index;
  return absl::DataLossError(
      absl::StrCat(PrintablePath(name), ": ", index.status().message()));
}

absl::StatusOr<ShardIndex> LoadShardIndex(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kShardIndexFile);
  const absl::StatusOr<std::string> json = ReadLimited(path, kMaxIndexBytes);
  if (absl::IsNotFound(json.status())) {
    return absl::NotFoundError(absl::StrCat(
        PrintablePath(folder),
        ": no token shards, or unfinished ones: there is no index.json; "
        "`comera data prepare` makes them"));
  }
  RETURN_IF_ERROR(json.status());
  return ParseShardIndex(*json, path);
}

}  // namespace comera::trainer
