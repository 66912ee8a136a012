#ifndef COMERA_SERVER_DAEMON_CLUSTER_ID_H_
#define COMERA_SERVER_DAEMON_CLUSTER_ID_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/runtime/id_source.h"
#include "server/store/job_store.h"

namespace comera::server {

// The name of the cluster that this store belongs to, for its workers, who
// compare the numbers of leaderships only within one. It is drawn when the
// first leader asks for it, kept in the store, and moves with it. Errors of
// JobStore.
absl::StatusOr<std::string> ClusterId(JobStore* store, IdSource* ids);

}  // namespace comera::server

#endif  // COMERA_SERVER_DAEMON_CLUSTER_ID_H_
