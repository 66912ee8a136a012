#ifndef COMERA_CLIENT_CLI_VERBS_DATA_PREPARER_H_
#define COMERA_CLIENT_CLI_VERBS_DATA_PREPARER_H_

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace comera::client {

// A `comera-trainer --prepare-data` child process, which ends with this object.
class DataPreparer {
 public:
  // Starts `command`, the program and its arguments. `standard_input`: it reads
  // that of this process, and stays in its process group to be allowed to.
  // NotFound, PermissionDenied: the program cannot be run.
  static absl::StatusOr<std::unique_ptr<DataPreparer>> Start(
      const std::vector<std::string>& command, bool standard_input);
  ~DataPreparer();
  DataPreparer(const DataPreparer&) = delete;
  DataPreparer& operator=(const DataPreparer&) = delete;

  // Waits for the next line of its output; nothing when it has ended well.
  // FailedPrecondition: it failed; the message is its last output.
  absl::StatusOr<std::optional<std::string>> NextLine();

  // Asks it to stop, or ends it at once; from any thread.
  void Stop(bool at_once);

 private:
  DataPreparer() = default;
  absl::Status Launch(const std::vector<std::string>& command,
                      bool standard_input);
  // Waits for the end, and tells why it came.
  absl::Status EndOfProgram();

  std::atomic<pid_t> pid_{-1};
  int output_ = -1;
  // The child's standard error, a file in memory.
  int errors_ = -1;
  std::string received_;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_VERBS_DATA_PREPARER_H_
