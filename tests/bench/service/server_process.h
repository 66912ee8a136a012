// Starts the comera-server to be measured and reads its use of resources.
#ifndef COMERA_TESTS_BENCH_SERVICE_SERVER_PROCESS_H_
#define COMERA_TESTS_BENCH_SERVICE_SERVER_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::bench {

struct ProcessFigures {
  int64_t resident_bytes = 0;
  int64_t peak_resident_bytes = 0;
  double cpu_seconds = 0;
};

// Reads the kernel's figures of a process. NotFound: it has ended.
absl::StatusOr<ProcessFigures> ReadFigures(pid_t pid);

// A comera-server on loopback with a fresh folder. The destructor ends the
// server and removes the folder.
class ServerProcess {
 public:
  // Runs `binary` with `flags` and a folder made below `parent`. Unavailable:
  // it did not come up; the message has its log.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Start(
      const std::string& binary, const std::string& parent,
      const std::vector<std::string>& flags);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // Kills the server without notice. Start() brings it back at its address,
  // with its data.
  void Kill();
  absl::Status Start();

  const std::string& address() const { return address_; }
  absl::StatusOr<ProcessFigures> Figures() const { return ReadFigures(pid_); }
  // The size of the store with its write-ahead log.
  int64_t StoreBytes() const;

 private:
  ServerProcess() = default;
  absl::Status AwaitAddress();

  std::string binary_, folder_;
  std::vector<std::string> flags_;
  // Empty until it has been started for the first time.
  std::string address_;
  pid_t pid_ = -1;
};

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_SERVICE_SERVER_PROCESS_H_
