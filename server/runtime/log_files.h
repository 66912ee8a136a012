#ifndef COMERA_SERVER_RUNTIME_LOG_FILES_H_
#define COMERA_SERVER_RUNTIME_LOG_FILES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/worker_service.pb.h"

namespace comera::server {

// The ranks' logs: logs/<job>/<attempt>-<rank>.log below the data folder.
// Blocks on the disk; for the IO thread. Job ids must have been checked.
class LogFiles {
 public:
  struct Options {
    // What a rank writes beyond this is acknowledged and left out.
    int64_t max_log_bytes = int64_t{1} << 30;
  };

  LogFiles(std::string data_dir, const Options& options)
      : data_dir_(std::move(data_dir)), options_(options) {}

  // Writes what is new in the chunk and returns up to where the log is stored:
  // a repeated chunk changes nothing, one behind a gap is refused by returning
  // an offset before it. ResourceExhausted, Unavailable.
  absl::StatusOr<int64_t> Append(const v1::LogChunk& chunk);

  // Up to `max_bytes` from `offset` on, empty at the end. NotFound: the rank
  // never logged.
  absl::StatusOr<std::string> Read(const std::string& job, int64_t attempt,
                                   int32_t rank, int64_t offset,
                                   size_t max_bytes) const;

 private:
  std::string Path(const std::string& job, int64_t attempt, int32_t rank) const;

  const std::string data_dir_;
  const Options options_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_RUNTIME_LOG_FILES_H_
