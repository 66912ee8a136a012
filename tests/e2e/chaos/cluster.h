#ifndef COMERA_TESTS_E2E_CHAOS_CLUSTER_H_
#define COMERA_TESTS_E2E_CHAOS_CLUSTER_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/e2e/chaos/network.h"
#include "tests/e2e/chaos/proxy.h"
#include "tests/e2e/process.h"
#include "tests/server/store/postgres_server.h"

namespace comera::e2e {

// Coordinators and workers as real processes that can be disturbed. A killed
// process stays dead until Start() is called. Not thread-safe.
class ChaosCluster {
 public:
  struct Options {
    // The folder of all their files; made by Begin().
    std::string folder;
    int workers = 3;
    int slots = 8;
    // Where the jobs are stored; null: one coordinator, with SQLite. Otherwise
    // two coordinators share the database, and one leads.
    server::PostgresServer* database = nullptr;
    // The network in which the processes live; null: that of the machine.
    const ChaosNetwork* network = nullptr;
    // Whether the workers call each other, and the coordinators the database,
    // at addresses of their own in that network.
    bool peer_addresses = false, database_addresses = false;
    // The size of a file system of its own for each worker's folder, which can
    // then be filled; 0 for plain folders.
    int64_t disk_bytes = 0;
    // Whether the coordinators' folder has a file system of its own, too, of
    // the same size.
    bool coordinator_disk = false;
    // Through which workers call the coordinators; null: directly. Worker n is
    // its group n.
    ChaosProxy* proxy = nullptr;
    // libfaketime, by which each process has a clock of its own; empty: all
    // have the machine's.
    std::string faketime;
    // disk_shim.cc as a library; empty: disks cannot be slow or fail.
    std::string disk_shim;
    // Programs of another version, for the last coordinator and worker 0;
    // empty: all run those of this checkout.
    std::string old_programs;
  };

  explicit ChaosCluster(const Options& options)
      : options_(options), coordinators_(options.database != nullptr ? 2 : 1) {}
  ~ChaosCluster();

  // Makes the folders and starts everything.
  absl::Status Begin();
  // Sends SIGTERM to the workers, then to the coordinators. DeadlineExceeded:
  // one did not end, or did not succeed.
  absl::Status End();

  // The addresses of all coordinators, separated by commas.
  std::string addresses() const;
  const std::vector<std::string>& coordinator_addresses() const {
    return addresses_;
  }
  std::string server_folder() const { return options_.folder + "/server"; }
  // The shared store of checkpoints.
  std::string store_folder() const { return options_.folder + "/store"; }
  std::string worker_folder(int worker) const;
  // The folder of workers under others' names.
  std::string impostor_folder() const { return options_.folder + "/impostor"; }
  std::string impostor_log() const { return options_.folder + "/impostor.log"; }
  int workers() const { return options_.workers; }
  bool can_fill_disk(int which) const {
    return options_.disk_bytes > 0 && (which >= 0 || options_.coordinator_disk);
  }
  // Whether the coordinators have less room on their disk than lets them take
  // changes.
  bool coordinator_disk_is_full() const;
  bool can_break_disks() const { return !options_.disk_shim.empty(); }
  bool has_clocks() const { return !options_.faketime.empty(); }

  // The coordinators have numbers from -1 downwards. The pid of what does not
  // run is 0.
  static constexpr int kCoordinator = -1;
  int coordinators() const { return coordinators_; }
  std::string Name(int which) const;
  pid_t Pid(int which) const;
  absl::Status Start(int which);
  // The number of the coordinator that leads, by the database; Unavailable: it
  // is not known.
  absl::StatusOr<int> Leader() const;
  void Signal(int which, int signal) const;
  // Sends SIGKILL and waits for the end.
  void Kill(int which);
  struct Ended {
    std::string what;
    int which = 0;
    // Whether it ended as it should: a worker for another one of its name, a
    // coordinator because the database was away when it started.
    bool gave_way = false;
  };
  // Reaps processes that ended by themselves.
  std::vector<Ended> Reap();

  // The log of a daemon.
  std::string LogPath(int which) const;
  // The pids of the worker's members.
  std::vector<pid_t> Members(int worker) const;
  // Coordinators share one folder.
  void FillDisk(int which) const;
  void FreeDisk(int which) const;
  // Lets writes and syncs below the folder take longer and fail, in percent.
  // Only that one of the coordinators is concerned.
  absl::Status BreakDisk(int which, absl::Duration delay, int percent) const;
  absl::Status MendDisk(int which) const;
  // Kills the worker with its members and removes all its files, as if another
  // machine were to take its place.
  void LoseMachine(int worker);
  // Sets the process's clock off, and those of its members.
  absl::Status SetClock(int which, absl::Duration offset) const;
  // Starts a second worker under the name of one that runs.
  void StartImpostor(int worker);
  bool ImpostorRuns() const;
  void KillImpostor();

 private:
  std::unique_ptr<Process>& Slot(int which);
  const std::unique_ptr<Process>& Slot(int which) const;
  // Ends the processes with numbers from `first` to before `end`.
  absl::Status End(int first, int end);
  std::vector<std::string> Command(int which) const;

  std::vector<std::string> WorkerCommand(int worker,
                                         const std::string& folder) const;
  std::vector<std::string> CoordinatorCommand(int coordinator) const;
  std::string FolderOf(int which) const;
  std::string ClockFile(int which) const;
  std::string DiskFile(int which) const;
  // What the process gets in addition to this one's environment, as KEY=VALUE.
  std::vector<std::string> Environment(int which) const;
  std::string Program(int which, const std::string& path) const;
  absl::Status MountDisk(const std::string& folder);
  // The port file of a coordinator, in the cluster's folder.
  static std::string PortFile(int coordinator);

  const Options options_;
  const int coordinators_;
  // By coordinator.
  std::vector<std::string> store_urls_;
  std::string database_;
  std::vector<std::string> addresses_;
  // Where worker n calls the coordinators, by worker.
  std::vector<std::vector<std::string>> routes_;
  std::vector<std::unique_ptr<Process>> servers_, workers_;
  std::unique_ptr<Process> impostor_;
  std::vector<std::string> mounts_;
};

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_CLUSTER_H_
