// Fuzzes folders of token shards, which anybody may have written. The first
// byte chooses what the rest is: the index, a whole shard, or the inner part of
// a shard whose header and footer are right and whose folder is opened too.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/files.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/trainer/data/batch/documents.h"
#include "worker/trainer/data/shards/shard_file.h"
#include "worker/trainer/data/shards/shard_index.h"
#include "worker/trainer/data/shards/shard_layout.h"
#include "worker/trainer/data/shards/shard_set.h"
#include "worker/trainer/data/source/cache_file.h"

namespace comera::trainer {
namespace {

void Check(bool good, const char* what) {
  if (!good) FuzzFailure(what);
}

void Index(const std::string& text) {
  const absl::StatusOr<ShardIndex> index = ParseShardIndex(text, "index.json");
  if (!index.ok()) return;
  const std::string written = ShardIndexText(*index);
  const absl::StatusOr<ShardIndex> again =
      ParseShardIndex(written, "index.json");
  Check(again.ok() && ShardIndexText(*again) == written,
        "an index that is another one when read again");
}

// What the first and last bytes of a shard say; zeros if there are too few.
ShardEntry EntryOf(const std::string& bytes, int64_t* vocabulary_size) {
  ShardEntry entry;
  entry.size_bytes = static_cast<int64_t>(bytes.size());
  if (entry.size_bytes <
      ShardLayout::kHeaderBytes + ShardLayout::kFooterBytes) {
    return entry;
  }
  const char* const footer =
      bytes.data() + bytes.size() - ShardLayout::kFooterBytes;
  *vocabulary_size = static_cast<int64_t>(LittleEndian64(&bytes[16]));
  entry.documents = static_cast<int64_t>(LittleEndian64(footer));
  entry.tokens = static_cast<int64_t>(LittleEndian64(footer + 8));
  entry.text_bytes = static_cast<int64_t>(LittleEndian64(footer + 16));
  entry.sha256 = Sha256Hex(bytes);
  return entry;
}

void CheckDocuments(const Documents& documents, int64_t vocabulary_size) {
  const int64_t tokens = documents.tokens();
  std::vector<int32_t> ids(static_cast<size_t>(tokens));
  std::vector<int64_t> ends;
  Check(tokens > 0 && documents.CopyTokens(0, tokens, ids.data()).ok() &&
            documents.CopyEnds(0, tokens, &ends).ok(),
        "checked documents cannot be read");
  Check(
      std::all_of(ids.begin(), ids.end(),
                  [&](int32_t id) { return id >= 0 && id < vocabulary_size; }),
      "a token outside the vocabulary");
  Check(static_cast<int64_t>(ends.size()) == documents.documents() &&
            std::is_sorted(ends.begin(), ends.end()) && ends.back() == tokens,
        "documents that end elsewhere");
  const std::vector<int64_t> counts = documents.LabelCounts();
  Check(std::accumulate(counts.begin(), counts.end(), int64_t{0}) ==
            documents.labels(),
        "label counts that are not those of the documents");
}

// Opens the folder that the shard lies in, with an index that fits it.
void Folder(const ShardEntry& entry, int64_t vocabulary_size,
            std::vector<int64_t> label_counts) {
  ShardIndex index;
  index.made_from = index.sources = index.tokenizer_digest = entry.sha256;
  index.vocabulary_size = vocabulary_size;
  index.documents = entry.documents;
  index.tokens = entry.tokens;
  index.text_bytes = entry.text_bytes;
  index.label_counts = std::move(label_counts);
  index.shards = {entry};
  NamedFuzzFile(kShardIndexFile, ShardIndexText(index));
  FileCache no_cache("", nullptr);
  const auto set = ShardSet::Open(FuzzFolder(), &no_cache, nullptr);
  Check(set.ok(), "a shard that its index makes worse");
  if (entry.documents == 0) return;
  CheckDocuments(*WholeShards(*set), vocabulary_size);
  for (int64_t last = 1; last < entry.documents; ++last) {
    const absl::StatusOr<SplitDocuments> split = SplitShards(*set, last);
    Check(split.ok() && split->last->documents() == last,
          "checked shards cannot be divided");
    CheckDocuments(*split->first, vocabulary_size);
    CheckDocuments(*split->last, vocabulary_size);
  }
}

void Shard(const std::string& bytes) {
  int64_t vocabulary_size = 0;
  const ShardEntry entry = EntryOf(bytes, &vocabulary_size);
  const absl::StatusOr<std::unique_ptr<ShardFile>> file =
      ShardFile::Open(NamedFuzzFile(ShardFileName(0), bytes), entry,
                      vocabulary_size, /*keep_open=*/true);
  if (!file.ok()) return;
  Check((*file)->layout().file_bytes() == entry.size_bytes,
        "a layout of another size");
  std::vector<int64_t> counts(static_cast<size_t>(vocabulary_size));
  (*file)->AddLabelCounts(&counts).IgnoreError();
  for (int64_t document = 0; document <= entry.documents; ++document) {
    const absl::StatusOr<int64_t> tokens = (*file)->TokensBefore(document);
    Check(tokens.ok() && *tokens >= document && *tokens <= entry.tokens,
          "a document outside the tokens");
    const absl::StatusOr<int64_t> text = (*file)->TextBytesBefore(document);
    Check(!text.ok() || (*text >= 0 && *text <= entry.text_bytes),
          "a text outside the texts");
  }
  const auto ignore = [](int64_t) {};
  if (!(*file)->Verify(entry.sha256, ignore).ok()) return;
  Folder(entry, vocabulary_size, std::move(counts));
}

// A shard with this between header and footer, as far as it has room for it.
std::string WithEnds(FuzzInput input) {
  ShardLayout layout;
  layout.vocabulary_size = 1 + input.Choose(16);
  // A large vocabulary takes four bytes for each token.
  if (input.Choose(8) == 1) layout.vocabulary_size += 65536;
  layout.bytes_per_token = ShardLayout::BytesPerTokenOf(layout.vocabulary_size);
  layout.tokens = input.Choose(64);
  layout.documents = input.Choose(8);
  layout.text_bytes = input.Choose(256);
  std::string inner = input.Rest();
  inner.resize(static_cast<size_t>(layout.footer() - ShardLayout::kHeaderBytes),
               '\0');
  return layout.Header() + inner + layout.Footer();
}

}  // namespace
}  // namespace comera::trainer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace comera::trainer;  // NOLINT: the entry point has no namespace.
  comera::FuzzInput input(data, size);
  const int kind = input.Choose(3);
  if (kind == 0) {
    Index(input.Rest());
  } else {
    Shard(kind == 1 ? input.Rest() : WithEnds(input));
  }
  return 0;
}
