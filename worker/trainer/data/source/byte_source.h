#ifndef COMERA_WORKER_TRAINER_DATA_SOURCE_BYTE_SOURCE_H_
#define COMERA_WORKER_TRAINER_DATA_SOURCE_BYTE_SOURCE_H_

#include <cstddef>

#include "absl/status/statusor.h"

namespace comera::trainer {

// A stream of bytes. Not thread safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Up to `size` bytes (at least one is asked for); 0 only at the end.
  // DataLoss: damaged contents.
  virtual absl::StatusOr<size_t> Read(char* bytes, size_t size) = 0;
};

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_SOURCE_BYTE_SOURCE_H_
