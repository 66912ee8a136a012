// What a job and the worker's own environment make of NCCL's settings.
#include "worker/session/nccl_environment.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

constexpr const char* kNothing[] = {"PATH=/bin", nullptr};

TEST(NcclEnvironmentTest, SumsAreRepeatableByDefault) {
  EXPECT_THAT(
      NcclEnvironment({}, kNothing),
      UnorderedElementsAre("NCCL_NVLS_ENABLE=0", "NCCL_GRAPH_REGISTER=0"));
}

TEST(NcclEnvironmentTest, AJobMayLetThemVary) {
  v1::TrainingSpec training;
  training.set_nondeterministic_sums(true);
  EXPECT_THAT(NcclEnvironment(training, kNothing),
              ElementsAre("NCCL_GRAPH_REGISTER=0"));
}

TEST(NcclEnvironmentTest, WhatTheWorkerWasGivenStays) {
  const char* const own[] = {"NCCL_NVLS_ENABLE=2", "NCCL_GRAPH_REGISTERED=1",
                             nullptr};
  EXPECT_THAT(NcclEnvironment({}, own), ElementsAre("NCCL_GRAPH_REGISTER=0"));
}

}  // namespace
}  // namespace comera::worker
