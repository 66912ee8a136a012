// Appends to and reads the log files of jobs' processes.
#include "server/runtime/log_files.h"

#include <fcntl.h>

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_macros.h"
#include "proto/resource_names.h"
#include "server/runtime/file_handle.h"

namespace comera::server {

std::string LogFiles::Path(const std::string& job, int64_t attempt,
                           int32_t rank) const {
  return absl::StrCat(data_dir_, "/logs/", ParseJobName(job).value_or("none"),
                      "/", attempt, "-", rank, ".log");
}

absl::StatusOr<int64_t> LogFiles::Append(const v1::LogChunk& chunk) {
  const int64_t end =
      chunk.offset() + static_cast<int64_t>(chunk.data().size());
  const std::string path = Path(chunk.job(), chunk.attempt(), chunk.rank());
  auto file = FileHandle::Open(path, O_WRONLY | O_CREAT);
  if (absl::IsNotFound(file.status())) {
    RETURN_IF_ERROR(MakeDirectories(path.substr(0, path.rfind('/'))));
    file = FileHandle::Open(path, O_WRONLY | O_CREAT);
  }
  RETURN_IF_ERROR(file.status());
  ASSIGN_OR_RETURN(const int64_t size, file->Size());
  if (size >= options_.max_log_bytes) return std::max(size, end);
  if (chunk.offset() > size || end <= size) return size;
  std::string_view news(chunk.data());
  news.remove_prefix(size - chunk.offset());
  RETURN_IF_ERROR(file->WriteAt(size, news));
  return end;
}

absl::StatusOr<std::string> LogFiles::Read(const std::string& job,
                                           int64_t attempt, int32_t rank,
                                           int64_t offset,
                                           size_t max_bytes) const {
  ASSIGN_OR_RETURN(FileHandle file,
                   FileHandle::Open(Path(job, attempt, rank), O_RDONLY));
  return file.ReadAt(offset, max_bytes);
}

}  // namespace comera::server
