#ifndef COMERA_WORKER_TRAINER_DATA_SOURCE_ZSTD_SOURCE_H_
#define COMERA_WORKER_TRAINER_DATA_SOURCE_ZSTD_SOURCE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/trainer/data/source/byte_source.h"
#include "zstd.h"

namespace comera::trainer {

// Decompresses Zstandard, one frame after another, in bounded memory: frames
// whose window is above 128 MiB (zstd --ultra --long=28 and more) are refused.
// Read: DataLoss when the input is truncated, has a wrong checksum, or is
// followed by something else.
class ZstdSource : public ByteSource {
 public:
  // `name` is for messages.
  ZstdSource(std::unique_ptr<ByteSource> input, std::string name);
  ~ZstdSource() override;
  ZstdSource(const ZstdSource&) = delete;
  ZstdSource& operator=(const ZstdSource&) = delete;

  absl::StatusOr<size_t> Read(char* bytes, size_t size) override;

 private:
  absl::Status Error(absl::string_view what) const;

  const std::unique_ptr<ByteSource> input_;
  const std::string name_;
  std::vector<char> buffer_;
  ZSTD_DStream* const stream_;
  ZSTD_inBuffer packed_ = {nullptr, 0, 0};
  bool between_frames_ = true;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_SOURCE_ZSTD_SOURCE_H_
