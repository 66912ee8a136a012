// Opens a file, compressed or not, as a stream of bytes.
#include "worker/trainer/data/source/open_byte_source.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/gzip_source.h"
#include "worker/trainer/data/source/read_limited.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

class FileSource : public ByteSource {
 public:
  FileSource(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~FileSource() override { close(fd_); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  absl::StatusOr<size_t> Read(char* bytes, size_t size) override {
    while (true) {
      const ssize_t count = read(fd_, bytes, size);
      if (count >= 0) return static_cast<size_t>(count);
      if (errno != EINTR)
        return absl::ErrnoToStatus(errno, PrintablePath(path_));
    }
  }

 private:
  const int fd_;
  const std::string path_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenByteSource(
    const std::string& path) {
  ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path));
  auto file = std::make_unique<FileSource>(fd, path);
  std::array<unsigned char, 2> magic = {0, 0};
  if (pread(fd, magic.data(), magic.size(), 0) == 2 && magic[0] == 0x1f &&
      magic[1] == 0x8b) {
    return std::make_unique<GzipSource>(std::move(file), path);
  }
  if (absl::EndsWith(path, ".gz")) {
    return absl::DataLossError(
        absl::StrCat(PrintablePath(path), ": not a gzip file"));
  }
  return std::unique_ptr<ByteSource>(std::move(file));
}

}  // namespace comera::trainer
