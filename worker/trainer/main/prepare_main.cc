// Serves `comera data prepare`: a request as JSON, progress as lines of JSON.
#include "worker/trainer/main/prepare_main.h"

#include <algorithm>
#include <cstdint>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/files.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr absl::Duration kInterval = absl::Milliseconds(200);

absl::Status Bad(const std::string& key, const char* expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(Printable(key), ": expected ", expected));
}

absl::Status ReadText(const std::string& key, const Json& value,
                      std::string* text) {
  if (!value.is_string()) return Bad(key, "a string");
  *text = value.get<std::string>();
  return absl::OkStatus();
}

absl::Status ReadFlag(const std::string& key, const Json& value, bool* flag) {
  if (!value.is_boolean()) return Bad(key, "true or false");
  *flag = value.get<bool>();
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ReadCount(const std::string& key, const Json& value,
                                  int64_t most) {
  if (!value.is_number_unsigned() ||
      value.get<uint64_t>() > static_cast<uint64_t>(most)) {
    return Bad(key, "a count");
  }
  return static_cast<int64_t>(value.get<uint64_t>());
}

absl::Status ReadSources(const std::string& key, const Json& value,
                         std::vector<std::string>* sources) {
  if (!value.is_array()) return Bad(key, "an array of strings");
  for (const Json& source : value) {
    if (!source.is_string()) return Bad(key, "an array of strings");
    sources->push_back(source.get<std::string>());
  }
  return absl::OkStatus();
}

absl::Status ReadKind(const std::string& key, const Json& value,
                      v1::TokenizerSpec* spec) {
  if (value == "byte_bpe") {
    spec->set_kind(v1::TokenizerSpec::BYTE_BPE);
  } else if (value == "characters") {
    spec->set_kind(v1::TokenizerSpec::CHARACTERS);
  } else {
    return Bad(key, "byte_bpe or characters, which can be trained");
  }
  return absl::OkStatus();
}

absl::Status ReadStandardInput(const std::string& key, const Json& value,
                               DocumentFile::Kind* kind) {
  if (value == "plain") {
    *kind = DocumentFile::Kind::kPlain;
  } else if (value == "jsonl") {
    *kind = DocumentFile::Kind::kJsonLines;
  } else if (value == "csv") {
    *kind = DocumentFile::Kind::kCsv;
  } else {
    return Bad(key, "plain, jsonl or csv");
  }
  return absl::OkStatus();
}

absl::Status ReadMember(const std::string& key, const Json& value,
                        PrepareOptions* options) {
  constexpr int64_t kMost = int64_t{1} << 40;
  DocumentStream::Options& reading = options->reading;
  if (key == "sources") return ReadSources(key, value, &options->sources);
  if (key == "to") return ReadText(key, value, &options->to);
  if (key == "tokenizer") return ReadText(key, value, &options->tokenizer);
  if (key == "kind") return ReadKind(key, value, &options->train);
  if (key == "field") return ReadText(key, value, &reading.format.field);
  if (key == "separator") {
    return ReadText(key, value, &reading.format.separator);
  }
  if (key == "standard_input") {
    return ReadStandardInput(key, value, &reading.standard_input);
  }
  if (key == "deduplicate") return ReadFlag(key, value, &options->deduplicate);
  if (key == "force") return ReadFlag(key, value, &options->force);
  if (key == "threads") {
    ASSIGN_OR_RETURN(const int64_t threads, ReadCount(key, value, 1024));
    options->threads = static_cast<int>(threads);
    return absl::OkStatus();
  }
  if (key == "vocabulary") {
    ASSIGN_OR_RETURN(const int64_t size, ReadCount(key, value, 1 << 24));
    options->train.set_train_vocabulary_size(static_cast<int32_t>(size));
    return absl::OkStatus();
  }
  if (key == "max_bad_rows") {
    ASSIGN_OR_RETURN(reading.max_bad_rows, ReadCount(key, value, kMost));
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Printable(key), ": no such member"));
}

std::string ProgressLine(const PrepareProgress& progress) {
  return JsonText(OrderedJson{{"what", progress.what},
                              {"done_bytes", progress.done_bytes},
                              {"total_bytes", progress.total_bytes},
                              {"documents", progress.documents},
                              {"tokens", progress.tokens},
                              {"skipped_rows", progress.skipped_rows},
                              {"duplicates", progress.duplicates}}) +
         "\n";
}

std::string ResultLine(const PrepareResult& result) {
  int64_t size_bytes = 0;
  for (const ShardEntry& shard : result.index.shards) {
    size_bytes += shard.size_bytes;
  }
  const OrderedJson members = {
      {"documents", result.index.documents},
      {"tokens", result.index.tokens},
      {"text_bytes", result.index.text_bytes},
      {"vocabulary_size", result.index.vocabulary_size},
      {"shards", result.index.shards.size()},
      {"size_bytes", size_bytes},
      {"skipped_rows", result.index.skipped_rows},
      {"duplicates", result.index.duplicates},
      {"kept_shards", result.kept_shards},
      {"already_there", result.already_there},
      {"skipped", result.skipped}};
  return JsonText(OrderedJson{{"result", members}}) + "\n";
}

}  // namespace

absl::StatusOr<PrepareOptions> ParsePrepareRequest(absl::string_view json) {
  const Json parsed = ParseJson(json, /*max_depth=*/3);
  if (!parsed.is_object()) {
    return absl::InvalidArgumentError("the request is no JSON object");
  }
  PrepareOptions options;
  options.threads = std::max(
      1,
      static_cast<int>(std::min(1024u, std::thread::hardware_concurrency())));
  for (const auto& [key, value] : parsed.items()) {
    RETURN_IF_ERROR(ReadMember(key, value, &options));
  }
  if (options.tokenizer.empty() &&
      options.train.kind() == v1::TokenizerSpec::KIND_UNSPECIFIED) {
    return absl::InvalidArgumentError("neither tokenizer nor kind is given");
  }
  return options;
}

absl::Status RunPrepare(const std::string& request_file,
                        const std::atomic<bool>& stop,
                        const std::function<void(const std::string&)>& emit) {
  ASSIGN_OR_RETURN(const std::string request, ReadFile(request_file));
  ASSIGN_OR_RETURN(PrepareOptions options, ParsePrepareRequest(request));
  options.keep_going = [&stop] {
    return stop ? absl::CancelledError("stopped as asked") : absl::OkStatus();
  };
  absl::Time next = absl::InfinitePast();
  options.on_progress = [&](const PrepareProgress& progress) {
    const absl::Time now = absl::Now();
    if (now < next) return;
    next = now + kInterval;
    emit(ProgressLine(progress));
  };
  ASSIGN_OR_RETURN(const PrepareResult result, PrepareShards(options));
  emit(ResultLine(result));
  return absl::OkStatus();
}

}  // namespace comera::trainer
