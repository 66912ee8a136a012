#ifndef COMERA_WORKER_TRAINER_DATA_SHARDS_SHARD_LAYOUT_H_
#define COMERA_WORKER_TRAINER_DATA_SHARDS_SHARD_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace comera::trainer {

// Where things lie in a file of token shards. All numbers are little-endian.
//
//   header        64 bytes: "comeraTS", version (4 bytes), bytes per token (4),
//                 vocabulary size (8), zeros
//   tokens        2 or 4 bytes each
//   zeros         up to a multiple of 8
//   token ends    8 bytes per document: the number, within the file, of the
//                 token behind the document's last one; rising
//   text ends     8 bytes per document: the bytes of UTF-8 text up to its end;
//                 never falling
//   label counts  8 bytes per token of the vocabulary: how often it is a label,
//                 i.e. a token but the first of its document
//   footer        32 bytes: documents, tokens, text bytes (8 each), "comeraTE"
//
// The counts stand at the end, so that a file is written in one pass.
struct ShardLayout {
  static constexpr uint32_t kVersion = 1;
  static constexpr int64_t kHeaderBytes = 64;
  static constexpr int64_t kFooterBytes = 32;
  // What tokenizers may have.
  static constexpr int64_t kMaxVocabulary = int64_t{1} << 22;
  // Bounds of one file that keep all sums far below 2^63.
  static constexpr int64_t kMaxTokens = int64_t{1} << 40;

  // 2 where the vocabulary allows it, else 4.
  static int32_t BytesPerTokenOf(int64_t vocabulary_size) {
    return vocabulary_size <= 65536 ? 2 : 4;
  }

  int32_t bytes_per_token = 0;
  int64_t vocabulary_size = 0;
  int64_t documents = 0;
  int64_t tokens = 0;
  int64_t text_bytes = 0;

  int64_t token_ends() const {
    return kHeaderBytes + (tokens * bytes_per_token + 7) / 8 * 8;
  }
  int64_t text_ends() const { return token_ends() + 8 * documents; }
  int64_t label_counts() const { return text_ends() + 8 * documents; }
  int64_t footer() const { return label_counts() + 8 * vocabulary_size; }
  int64_t file_bytes() const { return footer() + kFooterBytes; }

  std::string Header() const;
  std::string Footer() const;

  // The layout of a file that has these first and last bytes and this size.
  // DataLoss: another format, or the counts do not give this size.
  static absl::StatusOr<ShardLayout> Parse(absl::string_view header,
                                           absl::string_view footer,
                                           int64_t file_bytes);
};

// A number of 8 bytes, and back.
uint64_t LittleEndian64(const char* bytes);
void AppendLittleEndian64(uint64_t value, std::string* bytes);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_SHARDS_SHARD_LAYOUT_H_
