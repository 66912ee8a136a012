#ifndef COMERA_SERVER_HOST_COMMIT_H_
#define COMERA_SERVER_HOST_COMMIT_H_

#include <functional>

#include "absl/status/status.h"
#include "server/runtime/event_loop.h"
#include "server/store/store_thread.h"

namespace comera::server {

// What calls get from a coordinator that stops: Unavailable.
absl::Status StoppingError();

// Writes the batch, and calls `done` on the loop once it is durable.
// Unavailable: the store failed, or there is none (null) as the server stops;
// without a store, `done` runs at once on the calling thread.
void CommitThen(StoreThread* store, EventLoop* loop, StoreBatch batch,
                std::function<void(const absl::Status&)> done);

}  // namespace comera::server

#endif  // COMERA_SERVER_HOST_COMMIT_H_
