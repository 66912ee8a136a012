// Tests what the scheduler reads from specifications.
#include "server/scheduler/job_demand.h"

#include "gtest/gtest.h"

namespace comera::server {
namespace {

v1::JobSpec Job(int64_t hidden, int64_t heads) {
  v1::JobSpec spec;
  spec.mutable_model()->set_hidden(hidden);
  spec.mutable_model()->set_heads(heads);
  return spec;
}

TEST(JobDemand, AnyDeviceIsOneThatCanRunTheJob) {
  EXPECT_EQ(DemandOf(Job(768, 12)).device, v1::ResourceSpec::ANY);
  EXPECT_EQ(DemandOf(Job(512, 4)).device, v1::ResourceSpec::ANY);
  // The kernels for GPUs take heads of 128 columns.
  EXPECT_EQ(DemandOf(Job(1024, 4)).device, v1::ResourceSpec::CPU);
  v1::JobSpec tf32 = Job(768, 12);
  tf32.mutable_training()->set_precision(v1::TrainingSpec::TF32);
  EXPECT_EQ(DemandOf(tf32).device, v1::ResourceSpec::GPU);
  tf32.mutable_resources()->set_device(v1::ResourceSpec::CPU);
  EXPECT_EQ(DemandOf(tf32).device, v1::ResourceSpec::CPU);
  // A model without attention, such as DLRM.
  EXPECT_EQ(DemandOf(Job(0, 0)).device, v1::ResourceSpec::ANY);
}

}  // namespace
}  // namespace comera::server
