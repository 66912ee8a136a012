#ifndef COMERA_SERVER_HOST_JOB_OUTBOX_H_
#define COMERA_SERVER_HOST_JOB_OUTBOX_H_

#include "server/coordinator/operation/effects.h"
#include "server/store/job_store.h"

namespace comera::server {

// Keeps what somebody outside is to be told of changes of jobs, in the same
// step in which these become durable. Called on the event loop, for the same
// effects in the same order.
class JobOutbox {
 public:
  virtual ~JobOutbox() = default;
  // Adds to the batch what is to be kept of its changes.
  virtual void AddTo(const Effects& effects, StoreBatch* batch) = 0;
  // The batch is durable. Never called if it cannot become so; the host then
  // ends.
  virtual void OnCommitted(const Effects& effects) = 0;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_HOST_JOB_OUTBOX_H_
