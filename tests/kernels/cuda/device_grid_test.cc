// The number of multiprocessors comes from the device and is asked once.
#include "kernels/cuda/device_grid.h"

#include <cuda_runtime.h>

#include "gtest/gtest.h"
#include "tests/fakes/cuda/fake_cuda.h"

namespace comera::kernels {
namespace {

fake_cuda::FakeDevice Devices(int multiprocessors) {
  fake_cuda::FakeDevice device;
  device.count = 2;
  device.multiprocessors = multiprocessors;
  return device;
}

TEST(DeviceGridTest, AsksEachDeviceOnce) {
  fake_cuda::SetFakeDevice(Devices(7));
  EXPECT_EQ(Multiprocessors(), 7);
  fake_cuda::SetFakeDevice(Devices(9));
  EXPECT_EQ(Multiprocessors(), 7);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(Multiprocessors(), 9);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(Multiprocessors(), 7);
}

}  // namespace
}  // namespace comera::kernels
