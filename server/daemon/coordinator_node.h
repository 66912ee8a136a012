#ifndef COMERA_SERVER_DAEMON_COORDINATOR_NODE_H_
#define COMERA_SERVER_DAEMON_COORDINATOR_NODE_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/daemon/comera_server.h"
#include "server/runtime/event_loop.h"
#include "server/store/postgres_leadership.h"

namespace comera::server {

// One of several coordinators on a PostgreSQL database: a server that shows
// jobs and passes all else on while another one leads, and leads when it can.
//
// A change of role is a new ComeraServer at the same address: what the old one
// had in memory is gone with it, and clients, who retry, come back. A leader
// that loses its lease or its database steps down and stands again. It renews
// the lease while its event loop turns: one that is stopped or stuck loses it,
// and answers nothing more once it has.
class CoordinatorNode {
 public:
  struct Options {
    // store_url is set; term is ignored.
    ComeraServer::Options server;
    // host:port for clients and workers; empty: where the server listens.
    std::string advertise;
    // With TLS: a PEM file with the authorities of the other coordinators'
    // certificates, or "system". Empty: those of the clients' certificates; if
    // there are none either, this system's. A leader that these do not know
    // gets no calls passed on: callers are sent there.
    std::string coordinator_ca;
    LeaderLease::Options lease;
    // How often to try to lead, and to renew the lease; at least several times
    // in it.
    absl::Duration poll_interval = absl::Milliseconds(500);
  };

  // Serves when it returns, in either role. InvalidArgument: store_url, the
  // addresses; otherwise the errors of ComeraServer::Start. `clock` and `ids`
  // must outlive the node.
  static absl::StatusOr<std::unique_ptr<CoordinatorNode>> Start(
      const Options& options, Clock* clock, IdSource* ids);
  // Stops serving first, then gives the leadership up.
  ~CoordinatorNode();

  const std::string& address() const { return options_.server.listen; }
  const std::string& http_address() const {
    return options_.server.http.server.listen;
  }
  // 0: does not lead.
  int64_t term() const { return term_; }

 private:
  CoordinatorNode(const Options& options, Clock* clock, IdSource* ids)
      : options_(options), clock_(clock), ids_(ids) {}

  // Before anything is served: how calls are passed on.
  absl::Status PrepareForwarding();
  // Serves as a follower for the first time.
  absl::Status ServeFirst();
  void Loop();
  // One look at who leads, and what follows from it.
  absl::Status Round();
  absl::Status Lead();
  void StepDown(const absl::Status& why);
  void EndLeadership();
  absl::Status Serve(int64_t term);
  void StopServing();
  // On the keeper's thread, all the time.
  void KeepLease();
  // False once the node is to stop.
  bool Pause();

  // The addresses get the ports that were bound first.
  Options options_;
  Clock* const clock_;
  IdSource* const ids_;
  std::atomic<int64_t> term_{0};

  std::unique_ptr<PostgresLeadership> leadership_;
  // Set while a new leader loads the jobs, which may take longer than a lease;
  // it has no event loop yet.
  // Until when the loading of all jobs may keep the lease, in nanoseconds of
  // LeaderLease::BootTime(); 0: nothing is loaded.
  std::atomic<int64_t> loading_until_{0};

  // The node's thread alone uses it, once it runs.
  std::unique_ptr<ComeraServer> server_;
  bool database_failed_ = false;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  // Why the leadership is over.
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
  // Renews the lease whatever the node's thread waits for.
  std::unique_ptr<EventLoop> keeper_;
};

}  // namespace comera::server

#endif  // COMERA_SERVER_DAEMON_COORDINATOR_NODE_H_
