// Tokenises the documents of a corpus, into memory or onto the disk.
#include "worker/trainer/data/open_documents.h"

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "worker/trainer/data/batch/document_builder.h"
#include "worker/trainer/data/batch/document_set.h"
#include "worker/trainer/data/shards/shard_layout.h"
#include "worker/trainer/data/shards/shard_set.h"
#include "worker/trainer/data/shards/shard_set_writer.h"

namespace comera::trainer {
namespace {

using Activity = std::function<void(const std::string&)>;

// Stands in the cache for documents that are too many for memory.
constexpr absl::string_view kTooLarge = "in shards";

constexpr std::pair<Corpus::Part, const char*> kParts[] = {
    {Corpus::Part::kTrain, "train"},
    {Corpus::Part::kValidation, "validation"},
    {Corpus::Part::kTest, "test"}};

// Writes the documents of each part as shards below `folder`.
absl::Status WriteShards(const Corpus& corpus, const OpenedTokenizer& opened,
                         const std::string& key, const Activity& activity,
                         const std::string& folder) {
  for (const auto& [part, name] : kParts) {
    if (part == Corpus::Part::kTest && !corpus.has_test()) continue;
    ShardIndex index;
    index.made_from = index.sources = Sha256Hex(key);
    index.tokenizer_digest = Sha256Hex(opened.fingerprint);
    index.vocabulary_size = opened.tokenizer->vocabulary_size();
    const std::string path = absl::StrCat(folder, "/", name);
    RETURN_IF_ERROR(MakeDirectories(path));
    ShardSetWriter writer(path, std::move(index));
    RETURN_IF_ERROR(TokeniseDocuments(
        corpus, part, opened.tokenizer.get(), activity,
        [&](const std::vector<int32_t>& tokens, int64_t text_bytes) {
          RETURN_IF_ERROR(writer.Add(tokens, text_bytes));
          return writer.shard_is_full() ? writer.FinishShard()
                                        : absl::OkStatus();
        }));
    if (!writer.shard_is_empty()) RETURN_IF_ERROR(writer.FinishShard());
    RETURN_IF_ERROR(writer.Finish(0, 0));
  }
  return absl::OkStatus();
}

absl::StatusOr<DocumentParts> OpenShards(const Corpus& corpus,
                                         const std::string& folder,
                                         int32_t vocabulary_size,
                                         FileCache* cache,
                                         const Activity& activity) {
  DocumentParts parts;
  for (const auto& [part, name] : kParts) {
    if (part == Corpus::Part::kTest && !corpus.has_test()) continue;
    ASSIGN_OR_RETURN(
        std::shared_ptr<const ShardSet> set,
        ShardSet::Open(absl::StrCat(folder, "/", name), cache, activity));
    if (set->index().vocabulary_size != vocabulary_size) {
      return absl::DataLossError("shards of another vocabulary");
    }
    (part == Corpus::Part::kTrain        ? parts.train
     : part == Corpus::Part::kValidation ? parts.validation
                                         : parts.test) =
        WholeShards(std::move(set));
  }
  RETURN_IF_ERROR(
      CheckDocuments(*parts.train, *parts.validation, parts.test.get()));
  return parts;
}

}  // namespace

absl::StatusOr<DocumentParts> OpenDocuments(const Corpus& corpus,
                                            const OpenedTokenizer& opened,
                                            int64_t max_bytes, FileCache* cache,
                                            const Activity& activity) {
  Tokenizer* const tokenizer = opened.tokenizer.get();
  const int32_t vocabulary_size = tokenizer->vocabulary_size();
  const int64_t max_tokens =
      cache->is_on() ? max_bytes / ShardLayout::BytesPerTokenOf(vocabulary_size)
                     : std::numeric_limits<int64_t>::max();
  const std::string key = absl::StrCat("documents 2\n", opened.fingerprint,
                                       "\n", corpus.fingerprint());
  auto documents = std::make_shared<DocumentSets>();
  bool too_large = false;
  RETURN_IF_ERROR(cache->GetOrBuild(
      "documents", key,
      [&]() -> absl::StatusOr<std::string> {
        const absl::StatusOr<DocumentSets> built =
            BuildDocuments(corpus, tokenizer, activity, max_tokens);
        if (absl::IsOutOfRange(built.status())) {
          return std::string(kTooLarge.data(), kTooLarge.size());
        }
        RETURN_IF_ERROR(built.status());
        std::string bytes;
        built->train.Serialize(&bytes);
        built->validation.Serialize(&bytes);
        built->test.Serialize(&bytes);
        return bytes;
      },
      [&](absl::string_view bytes) -> absl::Status {
        too_large = bytes == kTooLarge;
        if (too_large) return absl::OkStatus();
        for (DocumentSet* const set :
             {&documents->train, &documents->validation, &documents->test}) {
          ASSIGN_OR_RETURN(*set, DocumentSet::Parse(&bytes, vocabulary_size));
        }
        RETURN_IF_ERROR(
            CheckDocuments(documents->train, documents->validation,
                           corpus.has_test() ? &documents->test : nullptr));
        return bytes.empty() ? absl::OkStatus()
                             : absl::DataLossError("bytes left over");
      }));
  if (!too_large) return PartsOf(documents);
  DocumentParts parts;
  RETURN_IF_ERROR(cache->GetOrBuildFolder(
      "shards", key,
      [&](const std::string& folder) {
        return WriteShards(corpus, opened, key, activity, folder);
      },
      [&](const std::string& folder) -> absl::Status {
        ASSIGN_OR_RETURN(parts, OpenShards(corpus, folder, vocabulary_size,
                                           cache, activity));
        return absl::OkStatus();
      }));
  return parts;
}

}  // namespace comera::trainer
