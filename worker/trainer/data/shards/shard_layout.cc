// Reads and writes the header and the footer of token shards.
#include "worker/trainer/data/shards/shard_layout.h"

namespace comera::trainer {
namespace {

constexpr absl::string_view kMagic = "comeraTS";
constexpr absl::string_view kEndMagic = "comeraTE";

void AppendLittleEndian32(uint32_t value, std::string* bytes) {
  for (int shift = 0; shift < 32; shift += 8) {
    bytes->push_back(static_cast<char>(value >> shift));
  }
}

uint32_t LittleEndian32(const char* bytes) {
  uint32_t value = 0;
  for (int i = 4; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

}  // namespace

uint64_t LittleEndian64(const char* bytes) {
  return LittleEndian32(bytes) | uint64_t{LittleEndian32(bytes + 4)} << 32;
}

void AppendLittleEndian64(uint64_t value, std::string* bytes) {
  AppendLittleEndian32(static_cast<uint32_t>(value), bytes);
  AppendLittleEndian32(static_cast<uint32_t>(value >> 32), bytes);
}

std::string ShardLayout::Header() const {
  std::string bytes(kMagic.data(), kMagic.size());
  AppendLittleEndian32(kVersion, &bytes);
  AppendLittleEndian32(static_cast<uint32_t>(bytes_per_token), &bytes);
  AppendLittleEndian64(static_cast<uint64_t>(vocabulary_size), &bytes);
  bytes.resize(kHeaderBytes, '\0');
  return bytes;
}

std::string ShardLayout::Footer() const {
  std::string bytes;
  for (const int64_t count : {documents, tokens, text_bytes}) {
    AppendLittleEndian64(static_cast<uint64_t>(count), &bytes);
  }
  bytes.append(kEndMagic.data(), kEndMagic.size());
  return bytes;
}

absl::StatusOr<ShardLayout> ShardLayout::Parse(absl::string_view header,
                                               absl::string_view footer,
                                               int64_t file_bytes) {
  if (header.size() != kHeaderBytes || footer.size() != kFooterBytes ||
      header.substr(0, 8) != kMagic || footer.substr(24) != kEndMagic) {
    return absl::DataLossError("not a token shard, or truncated");
  }
  if (LittleEndian32(&header[8]) != kVersion) {
    return absl::DataLossError("a token shard of another version");
  }
  const uint32_t bytes_per_token = LittleEndian32(&header[12]);
  const uint64_t vocabulary = LittleEndian64(&header[16]);
  const uint64_t documents = LittleEndian64(&footer[0]);
  const uint64_t tokens = LittleEndian64(&footer[8]);
  const uint64_t text_bytes = LittleEndian64(&footer[16]);
  ShardLayout layout;
  // Documents have a token each, which bounds their number too.
  if (vocabulary == 0 || vocabulary > kMaxVocabulary || tokens > kMaxTokens ||
      documents > tokens || text_bytes > uint64_t{1} << 60 ||
      bytes_per_token != static_cast<uint32_t>(BytesPerTokenOf(
                             static_cast<int64_t>(vocabulary)))) {
    return absl::DataLossError("impossible counts");
  }
  layout.bytes_per_token = static_cast<int32_t>(bytes_per_token);
  layout.vocabulary_size = static_cast<int64_t>(vocabulary);
  layout.documents = static_cast<int64_t>(documents);
  layout.tokens = static_cast<int64_t>(tokens);
  layout.text_bytes = static_cast<int64_t>(text_bytes);
  if (layout.file_bytes() != file_bytes) {
    return absl::DataLossError("its counts do not give its size");
  }
  return layout;
}

}  // namespace comera::trainer
