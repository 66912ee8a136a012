#ifndef COMERA_SERVER_DAEMON_CONNECTION_GATE_H_
#define COMERA_SERVER_DAEMON_CONNECTION_GATE_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "server/daemon/connection_places.h"

namespace comera::server {

// The listening port of a gRPC server, which bounds the connections of one
// address and of all; gRPC itself accepts whatever comes.
//
// Life cycle: Open; AttachTo before the server is built; Start once it serves;
// Stop, or destruction, before it is shut down. Not thread-safe.
class ConnectionGate {
 public:
  // Listens as gRPC does: on all addresses of the host, and with 0.0.0.0 and
  // [::] on those of both families. InvalidArgument: host has no address;
  // Unavailable: it cannot be bound.
  static absl::StatusOr<std::unique_ptr<ConnectionGate>> Open(
      const std::string& host, int port, const ConnectionLimits& limits);
  ~ConnectionGate();

  // The one that was bound.
  int port() const { return port_; }

  // Connections will be the server's, with these credentials.
  void AttachTo(grpc::ServerBuilder* builder,
                std::shared_ptr<grpc::ServerCredentials> credentials);
  // Accepts from now on. Internal: the system has no descriptor for it.
  absl::Status Start();
  // Accepts no more and frees the port.
  void Stop();

 private:
  explicit ConnectionGate(const ConnectionLimits& limits) : places_(limits) {}

  void AcceptLoop();
  void AcceptFrom(int listener);
  void NoteRefusal(const std::string& peer);

  int port_ = 0;
  std::vector<int> listeners_;
  int wake_ = -1;  // an eventfd
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server_;
  std::thread thread_;
  // Only the thread uses what follows.
  ConnectionPlaces places_;
  int refused_ = 0;
  absl::Time next_note_ = absl::InfinitePast();
  // Out of descriptors: nothing is accepted for a moment.
  bool pauses_ = false;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_DAEMON_CONNECTION_GATE_H_
