// A private coordinator and worker on this machine: `comera run`.
#ifndef COMERA_CLIENT_EMBEDDED_CLUSTER_H_
#define COMERA_CLIENT_EMBEDDED_CLUSTER_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/event.h"

namespace comera::client {

// Starts comera-server and comera-worker as child processes on loopback, and
// starts either again when it dies, so that its jobs end as they should; stops
// them when destroyed. The children also end when this process does.
//
//   ASSIGN_OR_RETURN(auto cluster, EmbeddedCluster::Start(options));
//   auto client = TrainingClient::Connect(cluster->address(), {});
//
// Jobs that an earlier run left unfinished in the same folder are cancelled at
// the start: nobody waits for them.
//
// Thread safety: all methods may be called from any thread; callbacks run on
// the supervising thread.
class EmbeddedCluster {
 public:
  struct Options {
    std::string server_binary;
    std::string worker_binary;
    std::string trainer_binary;
    // State and logs; one cluster at a time may use it.
    std::string data_dir;
    // Ranks the worker can run at once.
    int slots = 1;
    // Where to write pids and address as JSON, at every start of a child; ""
    // for nowhere.
    std::string status_file;
    // Ends of one child that are made good, within `quiet_time` of each other.
    int max_restarts = 8;
    absl::Duration quiet_time = absl::Minutes(1);
    // Pause before the first restart; doubles.
    absl::Duration restart_backoff = absl::Milliseconds(200);
    absl::Duration start_timeout = absl::Seconds(30);
    // From SIGTERM to SIGKILL.
    absl::Duration stop_timeout = absl::Seconds(15);
    std::function<void(const std::string&)> on_note;
    // A child died once too often; the cluster is of no use any more.
    std::function<void(const absl::Status&)> on_failure;
  };

  // FailedPrecondition: a program is missing, or another cluster uses
  // data_dir. Unavailable: a child does not start; the message holds the end
  // of its log.
  static absl::StatusOr<std::unique_ptr<EmbeddedCluster>> Start(
      const Options& options);
  // Stops.
  ~EmbeddedCluster();

  // host:port of the coordinator.
  const std::string& address() const { return address_; }
  // The same of its HTTP port, with the dashboard; empty: it has none.
  const std::string& http_address() const { return http_address_; }

  // Ends the worker, then the coordinator; waits for both.
  void Stop();

 private:
  struct Child {
    std::string name;
    std::vector<std::string> arguments;
    std::string log_path;
    pid_t pid = -1;  // -1: not running
    int restarts = 0;
    absl::Time started;
    absl::Time restart_at = absl::InfinitePast();
  };

  explicit EmbeddedCluster(const Options& options);

  absl::Status PrepareFolders();
  absl::Status StartChildren();
  absl::Status AwaitPort();
  absl::Status CancelLeftovers();
  absl::Status StartChild(Child& child);
  void WriteStatusFile();
  // The supervising thread.
  void Supervise();
  // One look at a child; an error once it died too often.
  absl::Status CheckRunning(Child& child);
  void StopChild(Child& child);
  std::string LogTail(const Child& child) const;
  void Note(const std::string& note) const;

  const Options options_;
  std::string port_file_;
  std::string address_;
  std::string http_address_;
  int lock_descriptor_ = -1;
  // Of the supervising thread.
  Child server_;
  Child worker_;
  Event stop_;
  Event started_;
  absl::Status start_status_;  // written before started_
  // Last: it uses all of the above; joined by Stop.
  std::thread supervisor_;
};

// The programs beside a binary in `folder`: in the same folder, or where Bazel
// puts them. Missing ones are "".
struct ClusterBinaries {
  std::string server;
  std::string worker;
  std::string trainer;
};
ClusterBinaries FindClusterBinaries(const std::string& folder);

}  // namespace comera::client

#endif  // COMERA_CLIENT_EMBEDDED_CLUSTER_H_
