// Decompresses a gzip file as it is read.
#include "worker/trainer/data/source/gzip_source.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

constexpr size_t kBufferBytes = 64 << 10;
constexpr int kGzipWindowBits = 15 + 16;

}  // namespace

GzipSource::GzipSource(std::unique_ptr<ByteSource> input, std::string name)
    : input_(std::move(input)), name_(std::move(name)), buffer_(kBufferBytes) {
  started_ = inflateInit2(&stream_, kGzipWindowBits) == Z_OK;
}

GzipSource::~GzipSource() {
  if (started_) inflateEnd(&stream_);
}

absl::Status GzipSource::Error(const char* what) const {
  return absl::DataLossError(
      absl::StrCat(PrintablePath(name_), ": gzip ", what));
}

absl::StatusOr<bool> GzipSource::Refill() {
  if (stream_.avail_in > 0) return true;
  ASSIGN_OR_RETURN(
      const size_t size,
      input_->Read(reinterpret_cast<char*>(buffer_.data()), buffer_.size()));
  stream_.next_in = buffer_.data();
  stream_.avail_in = static_cast<uInt>(size);
  return size > 0;
}

absl::StatusOr<size_t> GzipSource::Read(char* bytes, size_t size) {
  if (!started_) return absl::ResourceExhaustedError("zlib: inflateInit2");
  size = std::min<size_t>(size, std::numeric_limits<uInt>::max());
  stream_.next_out = reinterpret_cast<unsigned char*>(bytes);
  stream_.avail_out = static_cast<uInt>(size);
  while (stream_.avail_out == size) {
    ASSIGN_OR_RETURN(const bool more, Refill());
    if (!more) {
      if (between_members_) return 0;
      return Error("stream is truncated");
    }
    if (between_members_ && inflateReset(&stream_) != Z_OK) {
      return Error("stream cannot be reset");
    }
    between_members_ = false;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      between_members_ = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      return Error(stream_.msg == nullptr ? "stream is damaged" : stream_.msg);
    }
  }
  return size - stream_.avail_out;
}

}  // namespace comera::trainer
