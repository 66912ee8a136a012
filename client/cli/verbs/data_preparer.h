#ifndef COMERA_CLIENT_CLI_VERBS_DATA_PREPARER_H_
#define COMERA_CLIENT_CLI_VERBS_DATA_PREPARER_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/child_program.h"

namespace comera::client {

// A `comera-trainer --prepare-data` child process, which ends with this object.
class DataPreparer {
 public:
  // Starts `command`, the program and its arguments. `standard_input`: it reads
  // that of this process, and stays in its process group to be allowed to.
  // NotFound, PermissionDenied: the program cannot be run.
  static absl::StatusOr<std::unique_ptr<DataPreparer>> Start(
      const std::vector<std::string>& command, bool standard_input);

  // Waits for the next line of its output; nothing when it has ended well.
  // FailedPrecondition: it failed; the message is its last output.
  absl::StatusOr<std::optional<std::string>> NextLine();

  // Asks it to stop, or ends it at once; from any thread.
  void Stop(bool at_once) { program_->Stop(at_once); }

 private:
  explicit DataPreparer(std::unique_ptr<ChildProgram> program)
      : program_(std::move(program)) {}
  // Waits for the end, and tells why it came.
  absl::Status EndOfProgram();

  const std::unique_ptr<ChildProgram> program_;
};

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_VERBS_DATA_PREPARER_H_
