// Stores the log chunks that a worker's report brings.
#include "server/host/received_logs.h"

#include <utility>

#include "absl/status/statusor.h"
#include "common/log.h"

namespace comera::server {

std::vector<v1::LogAck> AppendLogs(const v1::SynchronizeRequest& request,
                                   const std::vector<bool>& keep,
                                   LogFiles* files) {
  std::vector<v1::LogAck> acks;
  for (int i = 0; i < request.logs_size(); ++i) {
    const v1::LogChunk& chunk = request.logs(i);
    absl::StatusOr<int64_t> end =
        chunk.offset() + static_cast<int64_t>(chunk.data().size());
    if (keep[i]) end = files->Append(chunk);
    if (!end.ok()) {
      LOG(WARNING) << "job=" << chunk.job() << " attempt=" << chunk.attempt()
                   << " rank=" << chunk.rank()
                   << " event=log_not_stored status=\"" << end.status() << "\"";
      continue;
    }
    v1::LogAck ack;
    ack.set_job(chunk.job());
    ack.set_attempt(chunk.attempt());
    ack.set_rank(chunk.rank());
    ack.set_offset(*end);
    acks.push_back(std::move(ack));
  }
  return acks;
}

}  // namespace comera::server
