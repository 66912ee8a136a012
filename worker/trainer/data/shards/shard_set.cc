// Opens a folder of token shards and reads documents across its files.
#include "worker/trainer/data/shards/shard_set.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

using Activity = std::function<void(const std::string&)>;

// Processes may have 1,024 descriptors.
constexpr size_t kMaxOpenFiles = 256;
constexpr int64_t kReportBytes = 256 << 20;

// The shard that holds the item with a number, `firsts` being the numbers of
// the shards' first ones.
size_t ShardOf(const std::vector<int64_t>& firsts, int64_t number) {
  return static_cast<size_t>(
      std::upper_bound(firsts.begin(), firsts.end(), number) - firsts.begin() -
      1);
}

// Documents of a set that follow one another.
class ShardDocuments : public Documents {
 public:
  std::shared_ptr<const ShardSet> set;
  int64_t first_token = 0;
  int64_t document_count = 0;
  int64_t token_count = 0;
  int64_t text_size = 0;
  std::vector<int64_t> label_counts;

  int64_t documents() const override { return document_count; }
  int64_t tokens() const override { return token_count; }
  int64_t text_bytes() const override { return text_size; }

  absl::Status CopyTokens(int64_t first, int64_t count,
                          int32_t* ids) const override {
    return ForEachShard(first, count,
                        [&](const ShardFile& file, int64_t shard_first,
                            int64_t at, int64_t size) {
                          (void)shard_first;
                          RETURN_IF_ERROR(file.ReadTokens(at, size, ids));
                          ids += size;
                          return absl::OkStatus();
                        });
  }

  absl::Status CopyEnds(int64_t first, int64_t count,
                        std::vector<int64_t>* ends) const override {
    ends->clear();
    return ForEachShard(first, count,
                        [&](const ShardFile& file, int64_t shard_first,
                            int64_t at, int64_t size) {
                          return file.AppendEnds(
                              at, size, shard_first - first_token, ends);
                        });
  }

  std::vector<int64_t> LabelCounts() const override { return label_counts; }

 private:
  // Calls visit(file, number of its first token in the set, first, count) for
  // each file that has some of the tokens, which are then numbered within it.
  template <typename Visit>
  absl::Status ForEachShard(int64_t first, int64_t count,
                            const Visit& visit) const {
    int64_t number = first_token + first;
    const int64_t end = number + count;
    for (size_t i = ShardOf(set->first_tokens(), number); number < end; ++i) {
      const int64_t begin = set->first_tokens()[i];
      const int64_t stop = std::min(end, set->first_tokens()[i + 1]);
      RETURN_IF_ERROR(
          visit(*set->files()[i], begin, number - begin, stop - number));
      number = stop;
    }
    return absl::OkStatus();
  }
};

}  // namespace

std::string ShardSet::tokenizer_folder() const {
  return absl::StrCat(folder_, "/", kShardTokenizerFolder);
}

absl::StatusOr<std::shared_ptr<const ShardSet>> ShardSet::Open(
    const std::string& folder, FileCache* cache, const Activity& activity) {
  auto set = absl::WrapUnique(new ShardSet);
  set->folder_ = folder;
  ASSIGN_OR_RETURN(set->index_, LoadShardIndex(folder));
  const std::vector<ShardEntry>& shards = set->index_.shards;
  int64_t documents = 0, tokens = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (activity && i % 16 == 0) {
      activity(
          absl::StrCat("opening token shards, ", i, " of ", shards.size()));
    }
    ASSIGN_OR_RETURN(
        std::unique_ptr<ShardFile> file,
        ShardFile::Open(
            absl::StrCat(folder, "/", ShardFileName(static_cast<int64_t>(i))),
            shards[i], set->index_.vocabulary_size,
            /*keep_open=*/shards.size() <= kMaxOpenFiles));
    set->files_.push_back(std::move(file));
    set->first_documents_.push_back(documents);
    set->first_tokens_.push_back(tokens);
    documents += shards[i].documents;
    tokens += shards[i].tokens;
  }
  set->first_documents_.push_back(documents);
  set->first_tokens_.push_back(tokens);
  RETURN_IF_ERROR(set->Verify(cache, activity));
  return std::shared_ptr<const ShardSet>(std::move(set));
}

absl::Status ShardSet::Verify(FileCache* cache, const Activity& activity) {
  std::string key = "token shards 2\n";
  int64_t total = 0;
  for (size_t i = 0; i < files_.size(); ++i) {
    ASSIGN_OR_RETURN(
        const std::string stamp,
        FileStamp(absl::StrCat(folder_, "/",
                               ShardFileName(static_cast<int64_t>(i)))));
    absl::StrAppend(&key, stamp, " ", index_.shards[i].sha256, "\n");
    total += index_.shards[i].size_bytes;
  }
  const std::vector<int64_t>& told = index_.label_counts;
  absl::StrAppend(&key, Sha256Hex({reinterpret_cast<const char*>(told.data()),
                                   told.size() * sizeof(told[0])}));
  constexpr absl::string_view kVerified = "verified";
  return cache->GetOrBuild(
      "verified-shards", key,
      [&]() -> absl::StatusOr<std::string> {
        int64_t done = 0;
        int64_t reported = -kReportBytes;
        for (size_t i = 0; i < files_.size(); ++i) {
          RETURN_IF_ERROR(
              files_[i]->Verify(index_.shards[i].sha256, [&](int64_t bytes) {
                done += bytes;
                if (!activity || done - reported < kReportBytes) return;
                reported = done;
                activity(absl::StrCat("checking token shards, ", done >> 20,
                                      " of ", total >> 20, " MiB"));
              }));
        }
        RETURN_IF_ERROR(VerifyLabelCounts());
        return std::string(kVerified.data(), kVerified.size());
      },
      [&](absl::string_view bytes) {
        return bytes == kVerified ? absl::OkStatus()
                                  : absl::DataLossError("malformed");
      });
}

absl::Status ShardSet::VerifyLabelCounts() const {
  std::vector<int64_t> counts(index_.label_counts.size());
  for (const auto& file : files_) {
    RETURN_IF_ERROR(file->AddLabelCounts(&counts));
  }
  if (counts == index_.label_counts) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(PrintablePath(folder_), "/", kShardIndexFile,
                   ": label_counts: not those of the shards"));
}

std::shared_ptr<const Documents> WholeShards(
    std::shared_ptr<const ShardSet> set) {
  auto whole = std::make_shared<ShardDocuments>();
  whole->document_count = set->index().documents;
  whole->token_count = set->index().tokens;
  whole->text_size = set->index().text_bytes;
  whole->label_counts = set->index().label_counts;
  whole->set = std::move(set);
  return whole;
}

absl::StatusOr<SplitDocuments> SplitShards(std::shared_ptr<const ShardSet> set,
                                           int64_t held_out) {
  const ShardIndex& index = set->index();
  const int64_t kept = index.documents - held_out;
  const size_t cut = ShardOf(set->first_documents(), kept);
  const ShardFile& file = *set->files()[cut];
  const int64_t within = kept - set->first_documents()[cut];

  auto first = std::make_shared<ShardDocuments>();
  auto last = std::make_shared<ShardDocuments>();
  first->set = last->set = set;
  ASSIGN_OR_RETURN(const int64_t tokens, file.TokensBefore(within));
  ASSIGN_OR_RETURN(first->text_size, file.TextBytesBefore(within));
  for (size_t i = 0; i < cut; ++i) {
    first->text_size += index.shards[i].text_bytes;
  }
  first->document_count = kept;
  first->token_count = set->first_tokens()[cut] + tokens;
  last->document_count = held_out;
  last->first_token = first->token_count;
  last->token_count = index.tokens - first->token_count;
  last->text_size = index.text_bytes - first->text_size;

  last->label_counts.assign(static_cast<size_t>(index.vocabulary_size), 0);
  RETURN_IF_ERROR(file.AddLabelCountsFrom(within, &last->label_counts));
  for (size_t i = cut + 1; i < set->files().size(); ++i) {
    RETURN_IF_ERROR(set->files()[i]->AddLabelCounts(&last->label_counts));
  }
  first->label_counts = index.label_counts;
  for (size_t id = 0; id < first->label_counts.size(); ++id) {
    first->label_counts[id] -= last->label_counts[id];
    if (first->label_counts[id] < 0) {
      return absl::DataLossError(
          absl::StrCat(PrintablePath(set->folder()), "/", kShardIndexFile,
                       ": label counts of the index and of the shards "
                       "disagree"));
    }
  }
  return SplitDocuments{std::move(first), std::move(last)};
}

}  // namespace comera::trainer
