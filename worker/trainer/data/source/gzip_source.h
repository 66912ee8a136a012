#ifndef COMERA_WORKER_TRAINER_DATA_SOURCE_GZIP_SOURCE_H_
#define COMERA_WORKER_TRAINER_DATA_SOURCE_GZIP_SOURCE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/trainer/data/source/byte_source.h"
#include "zlib.h"

namespace comera::trainer {

// Decompresses gzip, one member after another, in bounded memory. Read:
// DataLoss when the input is truncated, has a wrong checksum, or is followed by
// something else.
class GzipSource : public ByteSource {
 public:
  // `name` is for messages.
  GzipSource(std::unique_ptr<ByteSource> input, std::string name);
  ~GzipSource() override;
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  absl::StatusOr<size_t> Read(char* bytes, size_t size) override;

 private:
  // Refills stream_'s input; false at its end.
  absl::StatusOr<bool> Refill();
  absl::Status Error(const char* what) const;

  const std::unique_ptr<ByteSource> input_;
  const std::string name_;
  std::vector<unsigned char> buffer_;
  z_stream stream_ = {};
  bool started_ = false;  // inflateInit2 succeeded
  bool between_members_ = true;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_SOURCE_GZIP_SOURCE_H_
