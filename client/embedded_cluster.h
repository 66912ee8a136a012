// Runs a private coordinator and worker on this machine, for `comera run`.
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
#include "common/event.h"
#include "common/rpc_channel.h"

namespace comera::client {

// Starts comera-server and comera-worker as child processes on loopback,
// restarts either when it dies so that jobs still complete, and stops both when
// destroyed. The children also end when this process does.
//
//   ASSIGN_OR_RETURN(auto cluster, EmbeddedCluster::Start(options));
//   TrainingClient::Options client_options;
//   client_options.security = cluster->security();
//   auto client = TrainingClient::Connect(cluster->address(), client_options);
//
// Other users of the machine reach the ports too, so the coordinator asks for
// tokens, which lie in the folder of state and are its owner's alone.
//
// Unfinished jobs of an earlier run in the same folder are cancelled at the
// start, because nobody waits for them; but for the one that is to go on.
//
// Thread safety: all methods may be called from any thread; callbacks run on
// the supervising thread.
class EmbeddedCluster {
 public:
  struct Options {
    std::string server_binary;
    std::string worker_binary;
    std::string trainer_binary;
    // The folder of state, tokens and logs, which is closed to other users;
    // only one cluster at a time may use it.
    std::string data_dir;
    // Whether data_dir is this program's, so that it may be closed to others
    // whatever it holds. An empty one, and that of an earlier cluster, may.
    bool own_data_dir = false;
    // The number of members that the worker can run at once.
    int slots = 1;
    // The job of an earlier run that is not cancelled; empty: none.
    std::string kept_job;
    // Further flags of comera-worker.
    std::vector<std::string> worker_flags;
    // A file that receives pids, address and the token's file as JSON at every
    // start of a child; "" for none.
    std::string status_file;
    // The number of times a child is restarted if it dies again within
    // `quiet_time`.
    int max_restarts = 8;
    absl::Duration quiet_time = absl::Minutes(1);
    // The pause before the first restart; doubles with each.
    absl::Duration restart_backoff = absl::Milliseconds(200);
    absl::Duration start_timeout = absl::Seconds(30);
    // The time from SIGTERM to SIGKILL.
    absl::Duration stop_timeout = absl::Seconds(15);
    std::function<void(const std::string&)> on_note;
    // Called when a child died once too often; the cluster is then of no more
    // use.
    std::function<void(const absl::Status&)> on_failure;
  };

  // FailedPrecondition: a program is missing, another cluster uses data_dir,
  // other users can look into it, or its administrator's token is gone.
  // Unavailable: a child does not start; the message holds the end of its log.
  static absl::StatusOr<std::unique_ptr<EmbeddedCluster>> Start(
      const Options& options);
  // Calls Stop().
  ~EmbeddedCluster();

  // The coordinator's address, as host:port.
  const std::string& address() const { return address_; }
  // How callers prove to it that they are its owner.
  const ChannelSecurity& security() const { return security_; }
  // The address of its HTTP port with the dashboard; empty if it has none.
  const std::string& http_address() const { return http_address_; }

  // Ends the worker, then the coordinator, and waits for both.
  void Stop();

 private:
  struct Child {
    std::string name;
    std::vector<std::string> arguments;
    std::string log_path;
    // The process id; -1 while it does not run.
    pid_t pid = -1;
    int restarts = 0;
    absl::Time started;
    absl::Time restart_at = absl::InfinitePast();
  };

  explicit EmbeddedCluster(const Options& options);

  absl::Status PrepareFolders();
  absl::Status StartChildren();
  absl::Status AwaitPort();
  // Sees to it that worker_token_file_ holds a token that stands for the
  // worker.
  absl::Status ProvideWorkerToken();
  absl::Status CancelLeftovers();
  absl::Status StartChild(Child& child);
  void WriteStatusFile();
  // The body of the supervising thread.
  void Supervise();
  // Checks a child and restarts it if it ended; an error once it died too
  // often.
  absl::Status CheckRunning(Child& child);
  void StopChild(Child& child);
  std::string LogTail(const Child& child) const;
  void Note(const std::string& note) const;

  const Options options_;
  std::string port_file_;
  std::string worker_token_file_;
  ChannelSecurity security_;
  std::string address_;
  std::string http_address_;
  int lock_descriptor_ = -1;
  // Used by the supervising thread alone.
  Child server_;
  Child worker_;
  Event stop_;
  Event started_;
  absl::Status start_status_;  // written before started_ is notified
  // Declared last, because it uses all of the above; joined by Stop.
  std::thread supervisor_;
};

// The programs beside a binary in `folder`: in the same folder, or where Bazel
// puts them. A missing one is "".
struct ClusterBinaries {
  std::string server;
  std::string worker;
  std::string trainer;
};
ClusterBinaries FindClusterBinaries(const std::string& folder);

}  // namespace comera::client

#endif  // COMERA_CLIENT_EMBEDDED_CLUSTER_H_
