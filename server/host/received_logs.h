#ifndef COMERA_SERVER_HOST_RECEIVED_LOGS_H_
#define COMERA_SERVER_HOST_RECEIVED_LOGS_H_

#include <vector>

#include "comera/v1/worker_service.pb.h"
#include "server/runtime/log_files.h"

namespace comera::server {

// Appends the report's log chunks to their files and returns what the worker
// need not keep any longer. Chunks that are not to be kept (`keep`, by index)
// are acknowledged as well: nobody wants them. Blocks.
std::vector<v1::LogAck> AppendLogs(const v1::SynchronizeRequest& request,
                                   const std::vector<bool>& keep,
                                   LogFiles* files);

}  // namespace comera::server

#endif  // COMERA_SERVER_HOST_RECEIVED_LOGS_H_
