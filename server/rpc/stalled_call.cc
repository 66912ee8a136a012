// Ends calls whose clients take nothing.
#include "server/rpc/stalled_call.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "grpc/grpc.h"

namespace comera::server {

void CancelStalled(grpc::ServerContextBase* context, absl::Duration limit) {
  const std::string text =
      absl::StrCat("a piece was not taken for ", absl::FormatDuration(limit),
                   ": ask again from there");
  // Finish() would wait for the write that nobody takes, and TryCancel() says
  // CANCELLED, which clients take for their own doing.
  grpc_call_cancel_with_status(context->c_call(), GRPC_STATUS_UNAVAILABLE,
                               text.c_str(), nullptr);
}

}  // namespace comera::server
