// Verifies a training state while it is written to another place.

#include "worker/checkpoint/state_copy.h"

#include <string_view>
#include <utility>

#include "common/status_macros.h"
#include "worker/files/open_folder.h"
#include "worker/report/growing_file.h"

namespace comera::worker {

absl::Status CopyState(const CheckpointFile& from, const PathBelow& to,
                       const std::atomic<bool>& abandoned) {
  ASSIGN_OR_RETURN(OpenFolder folder, OpenFolder::Make(to.Parent()));
  ASSIGN_OR_RETURN(GrowingFile copy,
                   GrowingFile::Create(std::move(folder), to.Name(),
                                       to.Name() + ".tmp.copy"));
  absl::Status status =
      from.Verify(nullptr, [&](std::string_view data) -> absl::Status {
        if (abandoned) return absl::AbortedError("abandoned");
        return copy.Append(data);
      });
  if (status.ok()) status = copy.Commit();
  if (!status.ok()) copy.Discard();
  return status;
}

}  // namespace comera::worker
