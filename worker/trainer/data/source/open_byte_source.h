#ifndef COMERA_WORKER_TRAINER_DATA_SOURCE_OPEN_BYTE_SOURCE_H_
#define COMERA_WORKER_TRAINER_DATA_SOURCE_OPEN_BYTE_SOURCE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/trainer/data/source/byte_source.h"

namespace comera::trainer {

// A regular file's bytes, decompressed if it is gzip (told by its first bytes;
// a name in .gz without them is DataLoss). NotFound, InvalidArgument (not a
// regular file).
absl::StatusOr<std::unique_ptr<ByteSource>> OpenByteSource(
    const std::string& path);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_SOURCE_OPEN_BYTE_SOURCE_H_
