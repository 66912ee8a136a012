// Files of checked records (TFRecord), which TensorBoard reads.
#ifndef COMERA_CLIENT_EXPORT_RECORD_FILE_H_
#define COMERA_CLIENT_EXPORT_RECORD_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::client {

// CRC-32C (Castagnoli) as RFC 3720 defines it.
uint32_t Crc32c(std::string_view data);

// A record as it stands in the file: length (8 bytes, little-endian), masked
// CRC-32C of these (4), data, masked CRC-32C of the data (4).
std::string Record(std::string_view data);

// Appends records. Not thread-safe.
class RecordFile {
 public:
  // Opens `path`, made if missing, cut to its first `size` bytes: what an
  // interrupted writer left behind them is dropped. Unavailable: cannot be
  // opened or locked. FailedPrecondition: shorter than `size`, or another
  // process writes it.
  static absl::StatusOr<std::unique_ptr<RecordFile>> Open(
      const std::string& path, int64_t size);
  ~RecordFile();

  // Collected; written by Flush.
  void Append(std::string_view data);
  // ResourceExhausted: disk full. What is there then is as after the last
  // successful Flush, and more.
  absl::Status Flush();

  // Bytes that are in the file for good.
  int64_t size() const { return size_; }

 private:
  RecordFile(std::string path, int descriptor, int64_t size);

  const std::string path_;
  const int descriptor_;
  int64_t size_;
  std::string pending_;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_EXPORT_RECORD_FILE_H_
