// Tests the Status of every NCCL result.
#include "worker/collective/nccl_status.h"

#include "common/status_matchers.h"
#include "gtest/gtest.h"

namespace comera::collective {
namespace {

TEST(NcclStatusTest, CodesAreThoseOfTheCommunicator) {
  using Code = absl::StatusCode;
  EXPECT_OK(NcclStatus(NcclResult::kSuccess, "call"));
  const std::vector<std::pair<NcclResult, Code>> cases = {
      {NcclResult::kUnhandledCudaError, Code::kInternal},
      {NcclResult::kSystemError, Code::kUnavailable},
      {NcclResult::kInternalError, Code::kInternal},
      {NcclResult::kInvalidArgument, Code::kInvalidArgument},
      {NcclResult::kInvalidUsage, Code::kInvalidArgument},
      {NcclResult::kRemoteError, Code::kUnavailable},
      {NcclResult::kInProgress, Code::kInternal},
      {static_cast<NcclResult>(77), Code::kInternal},
  };
  for (const auto& [result, code] : cases) {
    EXPECT_EQ(NcclStatus(result, "call").code(), code);
  }
}

TEST(NcclStatusTest, NamesTheCallAndWhatNcclSays) {
  EXPECT_EQ(NcclStatus(NcclResult::kRemoteError, "ncclAllReduce", "peer gone")
                .message(),
            "ncclAllReduce: ncclRemoteError (6): peer gone");
  EXPECT_EQ(NcclStatus(static_cast<NcclResult>(77), "f").message(),
            "f: unknown to this version of NCCL (77)");
}

}  // namespace
}  // namespace comera::collective
