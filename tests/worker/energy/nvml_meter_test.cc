// Reads a GPU's counter through a fake NVML library.
#include "worker/energy/nvml_meter.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "tests/fakes/nvml/fake_nvml.h"
#include "worker/energy/open_energy_meter.h"

namespace comera::energy {
namespace {

using worker::FakeNvmlState;

std::string Library(const std::string& name) {
  return std::string(std::getenv("TEST_SRCDIR")) + "/" +
         std::getenv("TEST_WORKSPACE") + "/tests/fakes/nvml/" + name;
}

class NvmlMeterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    handle_ = dlopen(Library("libfake_nvml.so").c_str(), RTLD_NOW);
    ASSERT_NE(handle_, nullptr) << dlerror();
    const auto state = reinterpret_cast<FakeNvmlState* (*)()>(
        dlsym(handle_, "fake_nvml_state"));
    ASSERT_NE(state, nullptr);
    state_ = state();
    *state_ = FakeNvmlState();
    state_->gpus.resize(2);
    state_->gpus[0].uuid = "GPU-a";
    state_->gpus[1].uuid = "GPU-b";
    state_->gpus[1].millijoules = 5000;
  }
  void TearDown() override {
    EXPECT_EQ(state_->initialised, 0) << "not shut down";
    dlclose(handle_);
  }

  static std::unique_ptr<EnergyMeter> Open(const std::string& gpu) {
    return OpenNvmlMeter(gpu, Library("libfake_nvml.so"));
  }

  void* handle_ = nullptr;
  FakeNvmlState* state_ = nullptr;
};

TEST_F(NvmlMeterTest, CountsFromItsOpening) {
  for (const std::string gpu : {"GPU-b", "1"}) {
    state_->gpus[1].millijoules = 5000;
    const auto meter = Open(gpu);
    ASSERT_NE(meter, nullptr) << gpu;
    EXPECT_EQ(meter->Joules(), 0);
    state_->gpus[0].millijoules = 999999;
    state_->gpus[1].millijoules = 6500;
    EXPECT_DOUBLE_EQ(meter->Joules(), 1.5);
    // The driver was loaded anew.
    state_->gpus[1].millijoules = 0;
    EXPECT_DOUBLE_EQ(meter->Joules(), 1.5);
    state_->gpus[1].millijoules = 1000;
    EXPECT_DOUBLE_EQ(meter->Joules(), 2.5);
    state_->errors["nvmlDeviceGetTotalEnergyConsumption"] = 15;
    EXPECT_DOUBLE_EQ(meter->Joules(), 2.5);
    state_->errors.clear();
  }
}

TEST_F(NvmlMeterTest, WhatCannotBeReadIsNotThere) {
  EXPECT_EQ(Open("GPU-c"), nullptr);
  EXPECT_EQ(Open("2"), nullptr);
  state_->errors["nvmlDeviceGetTotalEnergyConsumption"] = 3;
  EXPECT_EQ(Open("GPU-a"), nullptr);
  state_->errors = {{"nvmlInit_v2", 9}};
  EXPECT_EQ(Open("GPU-a"), nullptr);
  EXPECT_EQ(OpenNvmlMeter("GPU-a", Library("libold_nvml.so")), nullptr);
  EXPECT_EQ(OpenNvmlMeter("GPU-a", "libno_such_nvml.so"), nullptr);
}

TEST_F(NvmlMeterTest, IsASourceAmongOthers) {
  EnergySources sources;
  sources.gpu = "GPU-b";
  sources.nvml = Library("libfake_nvml.so");
  const auto meter = OpenEnergyMeter(sources);
  ASSERT_NE(meter, nullptr);
  state_->gpus[1].millijoules += 2000;
  EXPECT_DOUBLE_EQ(meter->Joules(), 2);
}

}  // namespace
}  // namespace comera::energy
