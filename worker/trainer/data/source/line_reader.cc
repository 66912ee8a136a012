// Splits a stream of bytes into lines of bounded length.
#include "worker/trainer/data/source/line_reader.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/trainer/data/source/open_byte_source.h"
#include "worker/trainer/data/source/text.h"

namespace comera::trainer {
namespace {

constexpr size_t kBufferBytes = 64 << 10;

}  // namespace

absl::StatusOr<std::unique_ptr<LineReader>> LineReader::Open(
    const std::string& path, size_t max_line_bytes) {
  ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> source, OpenByteSource(path));
  return std::make_unique<LineReader>(std::move(source), path, max_line_bytes);
}

LineReader::LineReader(std::unique_ptr<ByteSource> source, std::string path,
                       size_t max_line_bytes)
    : source_(std::move(source)),
      path_(std::move(path)),
      max_line_bytes_(max_line_bytes),
      buffer_(kBufferBytes) {}

absl::Status LineReader::Error(absl::string_view what) const {
  return absl::DataLossError(
      absl::StrCat(Place(path_, line_number_), ": ", what));
}

absl::StatusOr<bool> LineReader::Refill() {
  if (position_ < filled_) return true;
  const absl::StatusOr<size_t> count =
      source_->Read(buffer_.data(), buffer_.size());
  if (absl::IsDataLoss(count.status())) return Error(count.status().message());
  RETURN_IF_ERROR(count.status());
  position_ = 0;
  filled_ = *count;
  return filled_ > 0;
}

absl::Status LineReader::SkipLine() {
  while (within_line_) {
    ASSIGN_OR_RETURN(const bool more, Refill());
    if (!more) break;
    const char* const start = &buffer_[position_];
    const auto* const end =
        static_cast<const char*>(std::memchr(start, '\n', filled_ - position_));
    position_ = end == nullptr ? filled_ : position_ + (end - start) + 1;
    within_line_ = end == nullptr;
  }
  within_line_ = false;
  return absl::OkStatus();
}

absl::StatusOr<bool> LineReader::ReadLine() {
  line_.clear();
  line_end_ = "";
  RETURN_IF_ERROR(SkipLine());
  while (true) {
    ASSIGN_OR_RETURN(const bool more, Refill());
    if (!more) return !line_.empty();
    const char* const start = &buffer_[position_];
    const size_t available = filled_ - position_;
    const void* const end = std::memchr(start, '\n', available);
    const size_t size =
        end == nullptr
            ? available
            : static_cast<size_t>(static_cast<const char*>(end) - start);
    if (line_.size() + size > max_line_bytes_) {
      can_go_on_ = within_line_ = true;
      return Error(
          absl::StrCat("the line is longer than ", max_line_bytes_, " bytes"));
    }
    line_.append(start, size);
    position_ += size;
    if (end != nullptr) {
      ++position_;
      line_end_ = "\n";
      return true;
    }
  }
}

absl::StatusOr<bool> LineReader::Next(absl::string_view* line) {
  ++line_number_;
  can_go_on_ = false;
  ASSIGN_OR_RETURN(const bool more, ReadLine());
  can_go_on_ = true;
  if (!more) return false;
  *line = line_;
  if (!line->empty() && line->back() == '\r') {
    line->remove_suffix(1);
    line_end_ = line_end_.empty() ? "\r" : "\r\n";
  }
  if (line->find('\0') != absl::string_view::npos) {
    return Error("a NUL byte: this is no text file");
  }
  if (!IsValidUtf8(*line)) return Error("not UTF-8");
  return true;
}

}  // namespace comera::trainer
