#ifndef COMERA_WORKER_TRAINER_DATA_SOURCE_OPEN_BYTE_SOURCE_H_
#define COMERA_WORKER_TRAINER_DATA_SOURCE_OPEN_BYTE_SOURCE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/trainer/data/source/byte_source.h"

namespace comera::trainer {

// A regular file's bytes, decompressed if it is gzip or Zstandard (told by its
// first bytes; a name in .gz or .zst without them is DataLoss). `bytes_read`,
// which may be null and must outlive the source, counts bytes of the file as
// they are read. NotFound, InvalidArgument (not a regular file). DataLoss: the
// file is of a format that holds no text, which the message names.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenByteSource(
    const std::string& path, std::atomic<int64_t>* bytes_read = nullptr);

// The same for what remains of the process's standard input, which is read only
// once.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenStandardInput(
    std::atomic<int64_t>* bytes_read = nullptr);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_SOURCE_OPEN_BYTE_SOURCE_H_
