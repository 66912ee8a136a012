#ifndef COMERA_WORKER_COLLECTIVE_COMMUNICATOR_H_
#define COMERA_WORKER_COLLECTIVE_COMMUNICATOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/collective/bfloat16.h"

namespace comera::collective {

// The collectives of one member in a gang.
//
// Life cycle: a factory of the implementation joins the gang and returns once
// all members are there. All members call the same collectives in the same
// order. After any error, but for one of recording in a graph, the communicator
// is broken: every later call returns the first error, and the gang must be
// formed anew (the next attempt).
//
// Thread safety: one thread at a time calls collectives; Abort and
// collectives_done may be called from any thread.
//
// Visibility: AllReduce and Broadcast are synchronous and take memory of the
// host; the result is there when they return OK. EnqueueAllReduce takes memory
// of the device and only enqueues: what the backend enqueues after
// JoinAllReduces finds the sum, the host finds it after it has waited for the
// backend.
//
// Errors: Unavailable, a member was lost; DeadlineExceeded, a collective did
// not finish within the time-out; Aborted, Abort was called; InvalidArgument;
// Internal, the device or its library failed.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // values[i] becomes the sum of values[i] over all members, bit-equal on every
  // member and from run to run. All members give the same size (0 is allowed).
  virtual absl::Status AllReduce(absl::Span<float> values) = 0;
  // The same in about half the bytes: each member rounds its values to
  // bfloat16, the sum is formed in float32 and rounded once more, so that it is
  // off by at most 2^-7 of the sum of the absolute values. The last
  // `exact_tail` values are summed as AllReduce does. Where nothing is sent,
  // nothing is rounded: with one member the values stay. By default only the
  // numbers are rounded, not the bytes saved.
  virtual absl::Status AllReduceCompressed(absl::Span<float> values,
                                           size_t exact_tail) {
    const absl::Span<float> rounded =
        values.subspan(0, values.size() - std::min(exact_tail, values.size()));
    const auto round = [&] {
      if (world_size() == 1) return;
      for (float& value : rounded) value = FromBfloat16(ToBfloat16(value));
    };
    round();
    const absl::Status status = AllReduce(values);
    round();
    return status;
  }
  // Copies the bytes of `root` to all.
  virtual absl::Status Broadcast(absl::Span<char> bytes, int root) = 0;
  virtual absl::Status Barrier() = 0;

  // Whether this communicator belongs to a backend with memory of its own; if
  // not, the three methods below are Unimplemented.
  virtual bool on_device() const { return false; }
  // AllReduce of memory of the backend, behind all that was enqueued there. What
  // the backend enqueues next does not wait for it: JoinAllReduces does. If the
  // communicator was made to compress, this is AllReduceCompressed. It may be
  // recorded in the backend's graph, with its JoinAllReduces, as long as the
  // size is not larger than one that was reduced before. Errors of the
  // collective come from a later call; the device never waits longer than the
  // time-out, and then goes on with values that are no sum: users of the values
  // ask Replayed(0) first.
  virtual absl::Status EnqueueAllReduce(absl::Span<float> values,
                                        size_t exact_tail) {
    return NotOnDevice();
  }
  // What the backend enqueues from here on finds the sums of all EnqueueAllReduces
  // so far.
  virtual absl::Status JoinAllReduces() { return NotOnDevice(); }
  // Reports that a graph holding so many EnqueueAllReduces was just replayed,
  // so that they are counted and watched like those that were called. 0: only
  // returns the error that ended what was enqueued, if there was one.
  virtual absl::Status Replayed(int64_t all_reduces) { return NotOnDevice(); }

  // Ends a collective under way, here and soon on the other members.
  virtual void Abort() = 0;

  // Number of collectives finished by this rank.
  virtual int64_t collectives_done() const = 0;
  // Number of collectives finished or under way; equals collectives_done()
  // where beginnings are not counted.
  virtual int64_t collectives_begun() const { return collectives_done(); }

 private:
  static absl::Status NotOnDevice() {
    return absl::UnimplementedError("this communicator has no device");
  }
};

}  // namespace comera::collective

#endif  // COMERA_WORKER_COLLECTIVE_COMMUNICATOR_H_
