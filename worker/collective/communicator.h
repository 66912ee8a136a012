#ifndef COMERA_WORKER_COLLECTIVE_COMMUNICATOR_H_
#define COMERA_WORKER_COLLECTIVE_COMMUNICATOR_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace comera::collective {

// The collectives of one rank in a gang.
//
// Life cycle: a factory of the implementation joins the gang and returns once
// all ranks are there. All ranks call the same collectives in the same order.
// After any error the communicator is broken: every later call returns the
// first error, and the gang must be formed anew (next job epoch).
//
// Thread safety: one thread calls collectives; Abort and collectives_done may
// be called from any thread.
//
// Visibility: AllReduce and Broadcast are synchronous; the result is in
// `values` when they return OK.
//
// Errors: Unavailable, a rank was lost; DeadlineExceeded, a collective did not
// finish within the time-out; Aborted, Abort was called; InvalidArgument.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // values[i] becomes the sum of values[i] over all ranks, bit-equal on every
  // rank and from run to run. All ranks give the same size (0 is allowed).
  virtual absl::Status AllReduce(absl::Span<float> values) = 0;
  // Bytes of `root` to all.
  virtual absl::Status Broadcast(absl::Span<char> bytes, int root) = 0;
  virtual absl::Status Barrier() = 0;

  // Ends a collective under way, here and soon on the other ranks.
  virtual void Abort() = 0;

  // Number of collectives finished by this rank.
  virtual int64_t collectives_done() const = 0;
};

}  // namespace comera::collective

#endif  // COMERA_WORKER_COLLECTIVE_COMMUNICATOR_H_
