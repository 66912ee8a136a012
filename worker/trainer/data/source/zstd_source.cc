// Decompresses a Zstandard file as it is read.
#include "worker/trainer/data/source/zstd_source.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

constexpr size_t kBufferBytes = 128 << 10;
// The library's own default, which holds whatever the file asks for.
constexpr int kMaxWindowLog = 27;

}  // namespace

ZstdSource::ZstdSource(std::unique_ptr<ByteSource> input, std::string name)
    : input_(std::move(input)),
      name_(std::move(name)),
      buffer_(kBufferBytes),
      stream_(ZSTD_createDStream()) {
  if (stream_ != nullptr) {
    ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, kMaxWindowLog);
  }
}

ZstdSource::~ZstdSource() { ZSTD_freeDStream(stream_); }

absl::Status ZstdSource::Error(absl::string_view what) const {
  return absl::DataLossError(
      absl::StrCat(PrintablePath(name_), ": zstd: ", what));
}

absl::StatusOr<size_t> ZstdSource::Read(char* bytes, size_t size) {
  if (stream_ == nullptr) {
    return absl::ResourceExhaustedError("zstd: ZSTD_createDStream");
  }
  ZSTD_outBuffer text = {bytes, size, 0};
  while (text.pos == 0) {
    if (packed_.pos == packed_.size) {
      ASSIGN_OR_RETURN(const size_t count,
                       input_->Read(buffer_.data(), buffer_.size()));
      packed_ = {buffer_.data(), count, 0};
      // The library may hold text back that still fits nowhere, so a frame is
      // asked for more even when there is no input.
      if (count == 0 && between_frames_) return 0;
    }
    const bool ended = packed_.size == 0;
    const size_t result = ZSTD_decompressStream(stream_, &text, &packed_);
    if (ZSTD_isError(result)) return Error(ZSTD_getErrorName(result));
    between_frames_ = result == 0;
    if (ended && text.pos == 0 && !between_frames_) {
      return Error("the file is truncated");
    }
  }
  return text.pos;
}

}  // namespace comera::trainer
