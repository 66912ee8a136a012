#ifndef COMERA_WORKER_COLLECTIVE_GLOO_MESH_H_
#define COMERA_WORKER_COLLECTIVE_GLOO_MESH_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/collective/gloo_tls.h"
#include "worker/collective/rendezvous.h"

namespace gloo {
class Context;
namespace transport {
class UnboundBuffer;
}  // namespace transport
}  // namespace gloo

namespace comera::collective {

struct GlooMeshOptions {
  int rank = 0;
  int world_size = 2;
  std::string host;
  std::string interface;
  absl::Duration connect_timeout;
  // Connections are TLS with this key (gloo_tls.h); none: they are plain.
  std::optional<GangTls> tls;
};

// Gloo's TCP connections of one member to all others, with one addition: the
// loss of any peer is noticed at once and ends the transfer under way, also
// one with another peer. (Gloo's own collectives wait on buffers that cannot
// be woken from outside: closing their context from another thread leaves them
// waiting until their time-out, and so does now and then the end of a peer;
// tests/bench:all_reduce --faults shows both.)
//
// Thread safety: one thread calls Exchange; Break may be called from any.
//
// Errors: DeadlineExceeded, Unavailable (also from the first Break on),
// Internal for what Gloo throws otherwise.
class GlooMesh {
 public:
  // Part of an exchange; an empty one is left out.
  struct Outgoing {
    int peer = 0;
    absl::Span<const char> bytes;
  };
  struct Incoming {
    int peer = 0;
    absl::Span<char> bytes;
  };

  static absl::StatusOr<std::unique_ptr<GlooMesh>> Connect(
      const GlooMeshOptions& options, Rendezvous* rendezvous);
  // Ends the connections; the others take it for a loss unless SayGoodbye was
  // called.
  ~GlooMesh();

  // Sends and receives at once; returns when both are done. Messages between
  // two members meet when they have the same tag, in order.
  absl::Status Exchange(uint32_t tag, const Outgoing& outgoing,
                        const Incoming& incoming, absl::Time deadline);

  // Ends all connections and the transfer under way.
  void Break();

  // Lets the others finish what does not concern this rank.
  void SayGoodbye();

 private:
  using Buffer = gloo::transport::UnboundBuffer;

  GlooMesh(std::shared_ptr<gloo::Context> context, int rank, int world_size);
  absl::Status Watch();
  void WatchLoop();
  absl::Status Register(std::vector<Buffer*> buffers);

  const std::shared_ptr<gloo::Context> context_;
  const int rank_;
  const int world_size_;

  std::mutex mutex_;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  // Buffers of the exchange under way.
  std::vector<Buffer*> active_ ABSL_GUARDED_BY(mutex_);

  // A receive open from every peer, which fails when any peer is lost; a peer
  // that leaves in good order completes it first.
  char watch_byte_ = 0;
  std::unique_ptr<Buffer> watch_buffer_;
  std::thread watch_;
};

}  // namespace comera::collective

#endif  // COMERA_WORKER_COLLECTIVE_GLOO_MESH_H_
