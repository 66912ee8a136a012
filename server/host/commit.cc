// Writes batches through the store's thread and reports back on the event loop.
#include "server/host/commit.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace comera::server {

absl::Status StoppingError() {
  return absl::UnavailableError("the coordinator is stopping");
}

void CommitThen(StoreThread* store, EventLoop* loop, StoreBatch batch,
                std::function<void(const absl::Status&)> done) {
  if (store == nullptr) return done(StoppingError());
  store->Write(std::move(batch), [loop, done = std::move(done)](
                                     const absl::Status& written) mutable {
    const absl::Status status =
        written.ok() ? written
                     : absl::UnavailableError(absl::StrCat(
                           "the job store failed: ", written.message()));
    loop->Post([status, done = std::move(done)] { done(status); });
  });
}

}  // namespace comera::server
