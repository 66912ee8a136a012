// Divides documents into files of token shards.
#include "worker/trainer/data/shards/shard_set_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "worker/trainer/data/shards/shard_file.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {

ShardSetWriter::ShardSetWriter(std::string folder, ShardIndex index,
                               int64_t shard_tokens)
    : folder_(std::move(folder)),
      shard_tokens_(shard_tokens),
      index_(std::move(index)) {
  index_.label_counts.assign(static_cast<size_t>(index_.vocabulary_size), 0);
}

std::string ShardSetWriter::PathOf(int64_t shard) const {
  return absl::StrCat(folder_, "/", ShardFileName(shard));
}

void ShardSetWriter::Count(const ShardEntry& entry) {
  index_.documents += entry.documents;
  index_.tokens += entry.tokens;
  index_.text_bytes += entry.text_bytes;
  index_.shards.push_back(entry);
}

absl::Status ShardSetWriter::Keep(const ShardEntry& entry) {
  ASSIGN_OR_RETURN(
      const auto file,
      ShardFile::Open(PathOf(static_cast<int64_t>(index_.shards.size())), entry,
                      index_.vocabulary_size, /*keep_open=*/true));
  RETURN_IF_ERROR(file->Verify(entry.sha256, [](int64_t) {}));
  std::vector<int64_t> counts(index_.label_counts.size(), 0);
  RETURN_IF_ERROR(file->AddLabelCounts(&counts));
  for (size_t id = 0; id < counts.size(); ++id) {
    index_.label_counts[id] += counts[id];
  }
  Count(entry);
  return absl::OkStatus();
}

absl::Status ShardSetWriter::Add(absl::Span<const int32_t> tokens,
                                 int64_t text_bytes) {
  if (shard_ == nullptr) {
    ASSIGN_OR_RETURN(
        shard_,
        ShardWriter::Create(PathOf(static_cast<int64_t>(index_.shards.size())),
                            index_.vocabulary_size));
  }
  return shard_->Add(tokens, text_bytes);
}

absl::Status ShardSetWriter::FinishShard() {
  if (index_.shards.size() >= kMaxShards) {
    return absl::ResourceExhaustedError(absl::StrCat(
        PrintablePath(folder_), ": more than ", kMaxShards, " shards"));
  }
  ASSIGN_OR_RETURN(const ShardEntry entry, shard_->Finish());
  for (size_t id = 0; id < index_.label_counts.size(); ++id) {
    index_.label_counts[id] += shard_->label_counts()[id];
  }
  Count(entry);
  shard_.reset();
  return absl::OkStatus();
}

int64_t ShardSetWriter::documents() const {
  return index_.documents + (shard_ == nullptr ? 0 : shard_->documents());
}

int64_t ShardSetWriter::tokens() const {
  return index_.tokens + (shard_ == nullptr ? 0 : shard_->tokens());
}

absl::Status ShardSetWriter::Finish(int64_t skipped_rows, int64_t duplicates) {
  index_.skipped_rows = skipped_rows;
  index_.duplicates = duplicates;
  const std::string text = ShardIndexText(index_);
  const std::string path = absl::StrCat(folder_, "/", kShardIndexFile);
  if (static_cast<int64_t>(text.size()) > kMaxShardIndexBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(PrintablePath(path), ": of ", text.size(),
                     " bytes, more than ", kMaxShardIndexBytes));
  }
  return WriteFileAtomically(path, text);
}

}  // namespace comera::trainer
