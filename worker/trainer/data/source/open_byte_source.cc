// Opens a file, compressed or not, as a stream of bytes.
#include "worker/trainer/data/source/open_byte_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/foreign_format.h"
#include "worker/trainer/data/source/gzip_source.h"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/data/source/text.h"
#include "worker/trainer/data/source/zstd_source.h"

namespace comera::trainer {
namespace {

class DescriptorSource : public ByteSource {
 public:
  DescriptorSource(int fd, std::string path, std::atomic<int64_t>* bytes_read)
      : fd_(fd), path_(std::move(path)), bytes_read_(bytes_read) {}
  ~DescriptorSource() override { close(fd_); }
  DescriptorSource(const DescriptorSource&) = delete;
  DescriptorSource& operator=(const DescriptorSource&) = delete;

  absl::StatusOr<size_t> Read(char* bytes, size_t size) override {
    while (true) {
      const ssize_t count = read(fd_, bytes, size);
      if (count >= 0) {
        if (bytes_read_ != nullptr) *bytes_read_ += count;
        return static_cast<size_t>(count);
      }
      if (errno != EINTR)
        return absl::ErrnoToStatus(errno, PrintablePath(path_));
    }
  }

 private:
  const int fd_;
  const std::string path_;
  std::atomic<int64_t>* const bytes_read_;
};

// Gives bytes that were already read before those of another source: a pipe
// cannot be read twice.
class PrefixedSource : public ByteSource {
 public:
  PrefixedSource(std::string prefix, std::unique_ptr<ByteSource> rest)
      : prefix_(std::move(prefix)), rest_(std::move(rest)) {}

  absl::StatusOr<size_t> Read(char* bytes, size_t size) override {
    if (given_ == prefix_.size()) return rest_->Read(bytes, size);
    const size_t count = std::min(size, prefix_.size() - given_);
    std::memcpy(bytes, prefix_.data() + given_, count);
    given_ += count;
    return count;
  }

 private:
  const std::string prefix_;
  size_t given_ = 0;
  const std::unique_ptr<ByteSource> rest_;
};

// Decompresses `packed` as its first bytes require. `name` is for messages, and
// its ending has to agree.
absl::StatusOr<std::unique_ptr<ByteSource>> Unpack(
    std::unique_ptr<ByteSource> packed, const std::string& name) {
  std::string first(kForeignFormatBytes, '\0');
  size_t size = 0;
  while (size < first.size()) {
    ASSIGN_OR_RETURN(const size_t count,
                     packed->Read(&first[size], first.size() - size));
    if (count == 0) break;
    size += count;
  }
  first.resize(size);
  auto whole = std::make_unique<PrefixedSource>(first, std::move(packed));
  if (absl::StartsWith(first, "\x1f\x8b")) {
    return std::make_unique<GzipSource>(std::move(whole), name);
  }
  // A frame, or one of those that readers pass over.
  if (absl::StartsWith(first, "\x28\xb5\x2f\xfd") ||
      (first.size() >= 4 && first.compare(1, 3, "\x2a\x4d\x18") == 0 &&
       (static_cast<unsigned char>(first[0]) & 0xf0) == 0x50)) {
    return std::make_unique<ZstdSource>(std::move(whole), name);
  }
  const absl::string_view advice = ForeignFormatAdvice(first);
  if (!advice.empty()) {
    return absl::DataLossError(absl::StrCat(PrintablePath(name), ": ", advice));
  }
  for (const auto& [ending, format] :
       {std::pair(".gz", "gzip"), std::pair(".zst", "Zstandard")}) {
    if (!absl::EndsWith(name, ending)) continue;
    return absl::DataLossError(
        absl::StrCat(PrintablePath(name), ": not a ", format, " file"));
  }
  return whole;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenByteSource(
    const std::string& path, std::atomic<int64_t>* bytes_read) {
  ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path));
  return Unpack(std::make_unique<DescriptorSource>(fd, path, bytes_read), path);
}

absl::StatusOr<std::unique_ptr<ByteSource>> OpenStandardInput(
    std::atomic<int64_t>* bytes_read) {
  const int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  if (fd < 0) return absl::ErrnoToStatus(errno, "standard input");
  const std::string name = "standard input";
  return Unpack(std::make_unique<DescriptorSource>(fd, name, bytes_read), name);
}

}  // namespace comera::trainer
