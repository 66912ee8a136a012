// NCCL's result codes as absl::Status.
#ifndef COMERA_WORKER_COLLECTIVE_NCCL_STATUS_H_
#define COMERA_WORKER_COLLECTIVE_NCCL_STATUS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/collective/nccl_api.h"

namespace comera::collective {

// OK for kSuccess; else an error with the name of `call`, of the code, and
// `detail` (LastError). Unavailable: another member or the network failed;
// InvalidArgument: NCCL refuses the call, as when two members share a GPU;
// Internal: CUDA or NCCL failed, or a call that was to be over is not.
absl::Status NcclStatus(NcclResult result, absl::string_view call,
                        absl::string_view detail = "");

}  // namespace comera::collective

#endif  // COMERA_WORKER_COLLECTIVE_NCCL_STATUS_H_
