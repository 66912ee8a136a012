// Tests what is Gloo's own: options, time-outs, disagreement.
#include "worker/collective/gloo_communicator.h"

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/conformance/communicator/gang.h"

namespace comera::collective {
namespace {

TEST(GlooCommunicatorTest, AGangOfOneNeedsNoRendezvous) {
  ASSERT_OK_AND_ASSIGN(auto communicator, CreateGlooCommunicator({}, nullptr));
  float value = 3;
  EXPECT_OK(communicator->AllReduce(absl::MakeSpan(&value, 1)));
  EXPECT_EQ(value, 3);
  EXPECT_OK(communicator->Barrier());
  EXPECT_EQ(communicator->collectives_done(), 2);
  communicator->Abort();
  EXPECT_THAT(communicator->Barrier(), StatusIs(absl::StatusCode::kAborted));
}

TEST(GlooCommunicatorTest, RefusesBadOptions) {
  GlooOptions options;
  options.rank = 2;
  options.world_size = 2;
  EXPECT_THAT(CreateGlooCommunicator(options, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument));
  options.rank = 0;
  EXPECT_THAT(CreateGlooCommunicator(options, nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(GlooCommunicatorTest, ARankThatDoesNotAppearIsATimeOut) {
  ASSERT_OK_AND_ASSIGN(FileRendezvous rendezvous,
                       FileRendezvous::Open(NewFolder()));
  GlooOptions options;
  options.world_size = 2;
  options.connect_timeout = absl::Milliseconds(50);
  EXPECT_THAT(CreateGlooCommunicator(options, &rendezvous),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       testing::HasSubstr("gloo-1")));
}

TEST(GlooCommunicatorTest, JunkInTheRendezvousIsAnError) {
  ASSERT_OK_AND_ASSIGN(FileRendezvous rendezvous,
                       FileRendezvous::Open(NewFolder()));
  ASSERT_OK(rendezvous.Set("gloo-1", "junk"));
  GlooOptions options;
  options.world_size = 2;
  options.connect_timeout = absl::Milliseconds(50);
  EXPECT_FALSE(CreateGlooCommunicator(options, &rendezvous).ok());
}

TEST(GlooCommunicatorTest, AnAddressOfNoInterfaceIsAnError) {
  ASSERT_OK_AND_ASSIGN(FileRendezvous rendezvous,
                       FileRendezvous::Open(NewFolder()));
  GlooOptions options;
  options.world_size = 2;
  options.interface = "no-such-interface";
  EXPECT_THAT(CreateGlooCommunicator(options, &rendezvous),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace comera::collective
