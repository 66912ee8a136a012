// Collectives between GPUs.
#ifndef COMERA_WORKER_COLLECTIVE_NCCL_COMMUNICATOR_H_
#define COMERA_WORKER_COLLECTIVE_NCCL_COMMUNICATOR_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/collective/communicator.h"
#include "worker/collective/nccl_api.h"
#include "worker/collective/rendezvous.h"

namespace comera::collective {

struct NcclOptions {
  int rank = 0;
  int world_size = 1;
  std::shared_ptr<NcclApi> api;
  // The one on which the backend enqueues; it must outlive the communicator.
  NcclApi::Stream backend_stream = nullptr;
  // Longest wait for all members to appear and connect.
  absl::Duration connect_timeout = absl::Minutes(2);
  // Longest duration of one collective, the wait for slower members and for
  // what is enqueued before it included.
  absl::Duration timeout = absl::Minutes(2);
  // How long a member that leaves waits for the others to leave too, so that
  // nobody still reads its memory.
  absl::Duration leave_timeout = absl::Seconds(2);
  // EnqueueAllReduce sends bfloat16: half the bytes. Each member's value is
  // rounded once and the sum once per member, so that it is off by at most
  // world_size * 2^-8 of the sum of the absolute values.
  bool compress = false;
};

// Joins the gang: member 0 makes NCCL's id and leaves it in `rendezvous`, which
// must be this gang's alone.
//
// Collectives run on a stream of the communicator's own, ordered against the
// backend's by events, so that the backend may compute while a sum that was only
// enqueued is on its way. A thread watches those under way: when one fails, takes
// longer than the time-out, or Abort is called, NCCL's communicator is aborted,
// which ends them on the device. NCCL does not tell the other members of the
// machine, so the member that ends, in whatever way, leaves a note in
// `rendezvous`; the others read it while they wait.
//
// Sums are bit-equal on every member; they are from run to run, too, as long as
// NCCL chooses the same algorithm, which it does for equal sizes on the same
// machines, and none that sums in a switch (NCCL_NVLS_ENABLE=0). Members that
// disagree about the next collective or its size learn it from the time-out, or
// not at all: NCCL does not compare.
//
// InvalidArgument: bad options, or NCCL refuses, as when two members share a
// GPU. DeadlineExceeded: a member did not appear. Unavailable: connecting
// failed, or another member gave up. Internal, ResourceExhausted: the device
// failed.
absl::StatusOr<std::unique_ptr<Communicator>> CreateNcclCommunicator(
    const NcclOptions& options, std::shared_ptr<Rendezvous> rendezvous);

}  // namespace comera::collective

#endif  // COMERA_WORKER_COLLECTIVE_NCCL_COMMUNICATOR_H_
