#ifndef COMERA_SERVER_STORE_STORE_COPY_H_
#define COMERA_SERVER_STORE_STORE_COPY_H_

#include <functional>

#include "absl/status/status.h"
#include "server/store/job_store.h"

namespace comera::server {

// Hands all that `from` holds to `commit` in batches. Audit entries keep their
// order; their ids are the receiving store's. Errors of both.
absl::Status CopyStore(
    StoreReader* from,
    const std::function<absl::Status(const StoreBatch&)>& commit);

// Into an empty store.
absl::Status CopyStore(StoreReader* from, JobStore* to);

}  // namespace comera::server

#endif  // COMERA_SERVER_STORE_STORE_COPY_H_
