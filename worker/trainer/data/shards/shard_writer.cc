// Writes a file of token shards in one pass.
#include "worker/trainer/data/shards/shard_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace comera::trainer {
namespace {

constexpr size_t kBufferBytes = 1 << 20;

absl::Status SyncFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open " + folder);
  const auto closer = absl::MakeCleanup([fd] { close(fd); });
  if (fsync(fd) != 0) return ErrnoStatus(errno, "fsync " + folder);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShardWriter>> ShardWriter::Create(
    const std::string& path, int64_t vocabulary_size) {
  // One writer at a time works in a folder, so what a killed one left may be
  // overwritten.
  std::string temporary = path + ".tmp";
  const int fd =
      open(temporary.c_str(),
           O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return ErrnoStatus(errno, "create " + temporary);
  auto writer = absl::WrapUnique(
      new ShardWriter(path, std::move(temporary), fd, vocabulary_size));
  writer->buffer_ = writer->layout_.Header();
  return writer;
}

ShardWriter::ShardWriter(std::string path, std::string temporary, int fd,
                         int64_t vocabulary_size)
    : path_(std::move(path)),
      temporary_(std::move(temporary)),
      fd_(fd),
      label_counts_(static_cast<size_t>(vocabulary_size), 0) {
  layout_.vocabulary_size = vocabulary_size;
  layout_.bytes_per_token = ShardLayout::BytesPerTokenOf(vocabulary_size);
}

ShardWriter::~ShardWriter() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
}

absl::Status ShardWriter::Flush(bool all) {
  if (!all && buffer_.size() < kBufferBytes) return absl::OkStatus();
  sha256_.Add(buffer_);
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t count = write(fd_, rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "write " + temporary_);
    rest.remove_prefix(static_cast<size_t>(count));
  }
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status ShardWriter::FlushNumbers(const std::vector<int64_t>& numbers) {
  for (const int64_t number : numbers) {
    AppendLittleEndian64(static_cast<uint64_t>(number), &buffer_);
    RETURN_IF_ERROR(Flush(/*all=*/false));
  }
  return absl::OkStatus();
}

absl::Status ShardWriter::Add(absl::Span<const int32_t> tokens,
                              int64_t text_bytes) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto token = static_cast<uint32_t>(tokens[i]);
    for (int shift = 0; shift < 8 * layout_.bytes_per_token; shift += 8) {
      buffer_.push_back(static_cast<char>(token >> shift));
    }
    if (i > 0) ++label_counts_[token];
    if (buffer_.size() >= kBufferBytes) {
      RETURN_IF_ERROR(Flush(/*all=*/false));
    }
  }
  ++layout_.documents;
  layout_.tokens += static_cast<int64_t>(tokens.size());
  layout_.text_bytes += text_bytes;
  token_ends_.push_back(layout_.tokens);
  text_ends_.push_back(layout_.text_bytes);
  return absl::OkStatus();
}

absl::StatusOr<ShardEntry> ShardWriter::Finish() {
  buffer_.append(
      static_cast<size_t>(layout_.token_ends() - ShardLayout::kHeaderBytes -
                          layout_.tokens * layout_.bytes_per_token),
      '\0');
  RETURN_IF_ERROR(FlushNumbers(token_ends_));
  RETURN_IF_ERROR(FlushNumbers(text_ends_));
  RETURN_IF_ERROR(FlushNumbers(label_counts_));
  buffer_.append(layout_.Footer());
  RETURN_IF_ERROR(Flush(/*all=*/true));
  if (fsync(fd_) != 0) return ErrnoStatus(errno, "fsync " + temporary_);
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    return ErrnoStatus(errno, "rename to " + path_);
  }
  close(std::exchange(fd_, -1));
  RETURN_IF_ERROR(SyncFolderOf(path_));
  ShardEntry entry;
  entry.sha256 = sha256_.Finish();
  entry.size_bytes = layout_.file_bytes();
  entry.documents = layout_.documents;
  entry.tokens = layout_.tokens;
  entry.text_bytes = layout_.text_bytes;
  return entry;
}

}  // namespace comera::trainer
