#ifndef COMERA_TESTS_E2E_CHAOS_CLUSTER_H_
#define COMERA_TESTS_E2E_CHAOS_CLUSTER_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tests/e2e/process.h"

namespace comera::e2e {

// A coordinator and workers as real processes that can be disturbed. A killed
// process stays dead until Start() is called. Not thread-safe.
class ChaosCluster {
 public:
  struct Options {
    // The folder of all their files; made by Begin().
    std::string folder;
    int workers = 3;
    int slots = 8;
    // The size of a file system of its own for each worker's folder, which can
    // then be filled; 0 for plain folders.
    int64_t disk_bytes = 0;
    // The environment of the coordinator and the workers, as KEY=VALUE.
    std::vector<std::string> environment;
  };

  explicit ChaosCluster(const Options& options) : options_(options) {}
  ~ChaosCluster();

  // Makes the folders and starts everything.
  absl::Status Begin();
  // Sends SIGTERM to the workers, then to the coordinator. DeadlineExceeded:
  // one did not end, or did not succeed.
  absl::Status End();

  const std::string& address() const { return address_; }
  std::string server_folder() const { return options_.folder + "/server"; }
  std::string worker_folder(int worker) const;
  int workers() const { return options_.workers; }
  bool can_fill_disks() const { return options_.disk_bytes > 0; }

  // The coordinator has number -1. The pid of what does not run is 0.
  static constexpr int kCoordinator = -1;
  std::string Name(int which) const;
  pid_t Pid(int which) const;
  absl::Status Start(int which);
  void Signal(int which, int signal) const;
  // Sends SIGKILL and waits for the end.
  void Kill(int which);
  // Reaps processes that ended by themselves; returns one line for each.
  std::vector<std::string> Reap();

  // The pids of the worker's members.
  std::vector<pid_t> Members(int worker) const;
  void FillDisk(int worker) const;
  void FreeDisk(int worker) const;

 private:
  std::unique_ptr<Process>& Slot(int which);
  const std::unique_ptr<Process>& Slot(int which) const;
  std::vector<std::string> Command(int which) const;

  const Options options_;
  std::string address_;
  std::unique_ptr<Process> server_;
  std::vector<std::unique_ptr<Process>> workers_;
  std::vector<std::string> mounts_;
};

}  // namespace comera::e2e

#endif  // COMERA_TESTS_E2E_CHAOS_CLUSTER_H_
