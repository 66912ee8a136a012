// Files of models and checkpoints over HTTP.
#ifndef COMERA_SERVER_HTTP_DOWNLOAD_H_
#define COMERA_SERVER_HTTP_DOWNLOAD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "comera/v1/training_service.pb.h"
#include "common/http/http_exchange.h"
#include "server/http/api_calls.h"

namespace comera::server {

// Answers with the file: its size and checksum from the job, its bytes from
// DownloadArtifact. Understands Range, If-Range and If-None-Match.
void AnswerWithFile(std::shared_ptr<HttpExchange> exchange, ApiCalls* calls,
                    const v1::DownloadArtifactRequest& request,
                    const ApiCaller& caller, absl::Duration timeout);

// A part of a file: `size` bytes from `offset` on.
struct FileRange {
  int64_t offset = 0;
  int64_t size = 0;
};

// The range that the header Range asks for. Nothing: malformed, several
// ranges, or another unit, which all mean the whole file. A range of size 0:
// there is nothing there.
std::optional<FileRange> ParseRange(const std::string& header, int64_t size);

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_DOWNLOAD_H_
