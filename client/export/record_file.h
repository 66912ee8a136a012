// Writes files of checksummed records (TFRecord), which TensorBoard reads.
#ifndef COMERA_CLIENT_EXPORT_RECORD_FILE_H_
#define COMERA_CLIENT_EXPORT_RECORD_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::client {

// The CRC-32C (Castagnoli) of `data`, as RFC 3720 defines it.
uint32_t Crc32c(std::string_view data);

// Encodes a record as it appears in the file: length (8 bytes, little-endian),
// masked CRC-32C of the length (4), data, masked CRC-32C of the data (4).
std::string Record(std::string_view data);

// Appends records to a file. Not thread-safe.
class RecordFile {
 public:
  // Opens `path`, creating it if missing, and cuts it to its first `size` bytes
  // to drop what an interrupted writer left behind them. Unavailable: it cannot
  // be opened or locked. FailedPrecondition: it is shorter than `size`, or
  // another process writes it.
  static absl::StatusOr<std::unique_ptr<RecordFile>> Open(
      const std::string& path, int64_t size);
  ~RecordFile();

  // Buffers a record until Flush.
  void Append(std::string_view data);
  // Writes the buffered records. ResourceExhausted: the disk is full; the file
  // then still begins with everything up to the last successful Flush.
  absl::Status Flush();

  // The number of bytes that are safely in the file.
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
