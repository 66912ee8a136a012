// Frames records with masked CRCs and appends them durably.

#include "client/export/record_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files.h"

namespace comera::client {
namespace {

// The reflected form of 0x1EDC6F41.
constexpr uint32_t kPolynomial = 0x82F63B78;
// The mask for CRCs of data that may itself hold CRCs.
constexpr uint32_t kMaskDelta = 0xA282EAD8;

std::array<uint32_t, 256> Table() {
  std::array<uint32_t, 256> table;
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 1) != 0 ? (crc >> 1) ^ kPolynomial : crc >> 1;
    }
    table[i] = crc;
  }
  return table;
}

uint32_t Masked(uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + kMaskDelta;
}

void AppendLittleEndian(uint64_t value, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) {
    *out += static_cast<char>((value >> (8 * i)) & 0xFF);
  }
}

}  // namespace

uint32_t Crc32c(std::string_view data) {
  static const std::array<uint32_t, 256> table = Table();
  uint32_t crc = 0xFFFFFFFF;
  for (const char c : data) {
    crc = table[(crc ^ static_cast<uint8_t>(c)) & 0xFF] ^ (crc >> 8);
  }
  return crc ^ 0xFFFFFFFF;
}

std::string Record(std::string_view data) {
  std::string record;
  record.reserve(data.size() + 16);
  AppendLittleEndian(data.size(), 8, &record);
  AppendLittleEndian(Masked(Crc32c(record)), 4, &record);
  record.append(data);
  AppendLittleEndian(Masked(Crc32c(data)), 4, &record);
  return record;
}

absl::StatusOr<std::unique_ptr<RecordFile>> RecordFile::Open(
    const std::string& path, int64_t size) {
  const int descriptor =
      open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) return ErrnoStatus(errno, path);
  // The object owns the descriptor from here on.
  std::unique_ptr<RecordFile> file(new RecordFile(path, descriptor, size));
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? absl::FailedPreconditionError(absl::StrCat(
                                      path, ": another process exports to it"))
                                : ErrnoStatus(errno, path);
  }
  struct stat status = {};
  if (fstat(descriptor, &status) != 0) return ErrnoStatus(errno, path);
  if (status.st_size < size) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": has ", status.st_size, " bytes, ", size,
                     " were written: somebody changed it"));
  }
  if (ftruncate(descriptor, size) != 0 ||
      lseek(descriptor, size, SEEK_SET) != size) {
    return ErrnoStatus(errno, path);
  }
  return file;
}

RecordFile::RecordFile(std::string path, int descriptor, int64_t size)
    : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

RecordFile::~RecordFile() { close(descriptor_); }

void RecordFile::Append(std::string_view data) { pending_ += Record(data); }

absl::Status RecordFile::Flush() {
  size_t done = 0;
  while (done < pending_.size()) {
    const ssize_t written = pwrite(descriptor_, pending_.data() + done,
                                   pending_.size() - done, size_ + done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, path_);
    done += written;
  }
  // Data reported as written must survive a crash of the machine.
  if (!pending_.empty() && fdatasync(descriptor_) != 0) {
    return ErrnoStatus(errno, path_);
  }
  size_ += static_cast<int64_t>(pending_.size());
  pending_.clear();
  return absl::OkStatus();
}

}  // namespace comera::client
