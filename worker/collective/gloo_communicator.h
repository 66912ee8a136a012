#ifndef COMERA_WORKER_COLLECTIVE_GLOO_COMMUNICATOR_H_
#define COMERA_WORKER_COLLECTIVE_GLOO_COMMUNICATOR_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/collective/communicator.h"
#include "worker/collective/gloo_tls.h"
#include "worker/collective/rendezvous.h"

namespace comera::collective {

struct GlooOptions {
  int rank = 0;
  int world_size = 1;
  // Address or host name by which the other members reach this one. The default
  // serves members on one machine.
  std::string host = "127.0.0.1";
  // Instead of `host`: the network interface to use.
  std::string interface;
  // The members prove to each other that they have this key, and all that they
  // send is encrypted; none: the connections are plain.
  std::optional<GangTls> tls;
  // Longest wait for all members to appear and connect.
  absl::Duration connect_timeout = absl::Minutes(2);
  // Longest duration of one collective, the wait for slower members included.
  absl::Duration timeout = absl::Minutes(2);
};

// Joins the gang over TCP; the members find each other in `rendezvous`, which
// must be this gang's alone and is used only during the call. A gang of one
// uses neither the network nor `rendezvous`.
//
// AllReduce is a ring or, for small sizes, halving and doubling, so that each
// sum is formed once and in one order. Abort, any error, and the end of a
// process close its connections, which ends the others' collectives at once
// with Unavailable. A member that has done its last collective may destroy its
// communicator at once, and should do so before its process ends. Members that
// disagree about the next collective or its size learn it from the time-out.
//
// InvalidArgument: bad options. DeadlineExceeded: a member did not appear.
// Unavailable: connecting failed, or what connected does not have the key.
absl::StatusOr<std::unique_ptr<Communicator>> CreateGlooCommunicator(
    const GlooOptions& options, Rendezvous* rendezvous);

}  // namespace comera::collective

#endif  // COMERA_WORKER_COLLECTIVE_GLOO_COMMUNICATOR_H_
