// Loads a fake NVML library and checks what the worker reads from it.
#include "worker/gpu/nvml.h"

#include <dlfcn.h>

#include <cstdlib>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/nvml/fake_nvml.h"

namespace comera::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Library(const std::string& name) {
  return std::string(std::getenv("TEST_SRCDIR")) + "/" +
         std::getenv("TEST_WORKSPACE") + "/tests/fakes/nvml/" + name;
}

class NvmlTest : public testing::Test {
 protected:
  void SetUp() override {
    handle_ = dlopen(Library("libfake_nvml.so").c_str(), RTLD_NOW);
    ASSERT_NE(handle_, nullptr) << dlerror();
    const auto state = reinterpret_cast<FakeNvmlState* (*)()>(
        dlsym(handle_, "fake_nvml_state"));
    ASSERT_NE(state, nullptr);
    state_ = state();
    *state_ = FakeNvmlState();
    for (int i = 0; i < 4; ++i) {
      FakeNvmlState::Gpu gpu;
      gpu.uuid = "GPU-" + std::to_string(i);
      gpu.name = "NVIDIA H200";
      gpu.pci_bus_id = "00000000:0" + std::to_string(i) + ":00.0";
      gpu.total = 150'000'000'000;
      gpu.reserved = 600'000'000;
      gpu.board = i / 2;
      state_->gpus.push_back(gpu);
    }
  }
  void TearDown() override {
    EXPECT_EQ(state_->initialised, 0) << "not shut down";
    EXPECT_EQ(state_->event_sets, 0);
    dlclose(handle_);
  }

  static auto Load() { return LoadNvml(Library("libfake_nvml.so")); }

  void* handle_ = nullptr;
  FakeNvmlState* state_ = nullptr;
};

TEST_F(NvmlTest, DescribesTheGpus) {
  ASSERT_OK_AND_ASSIGN(const auto driver, Load());
  ASSERT_EQ(driver->gpus().size(), 4u);
  const v1::Gpu& gpu = driver->gpus()[2];
  EXPECT_EQ(gpu.uuid(), "GPU-2");
  EXPECT_EQ(gpu.name(), "NVIDIA H200");
  EXPECT_EQ(gpu.pci_bus_id(), "00000000:02:00.0");
  EXPECT_EQ(gpu.memory_bytes(), 150'000'000'000);
  EXPECT_EQ(gpu.topology(), "another NUMA node to 0, 1; PCIe switch to 3");
}

TEST_F(NvmlTest, FindsNvlinks) {
  // GPUs 0 and 1 are linked; 2 and 3 hang on a switch, 3 by its second link.
  state_->gpus[0].links = {FakeNvmlState::kDown, 1};
  state_->gpus[1].links = {0};
  state_->gpus[2].links = {FakeNvmlState::kSwitch};
  state_->gpus[3].links = {FakeNvmlState::kDown, FakeNvmlState::kSwitch};
  ASSERT_OK_AND_ASSIGN(const auto driver, Load());
  EXPECT_EQ(driver->gpus()[0].topology(),
            "NVLink to 1; another NUMA node to 2, 3");
  EXPECT_EQ(driver->gpus()[3].topology(),
            "another NUMA node to 0, 1; NVLink to 2");
}

TEST_F(NvmlTest, ReadsTheState) {
  FakeNvmlState::Gpu& gpu = state_->gpus[1];
  gpu.used = 5'000'000;
  gpu.ecc = 3;
  gpu.temperature = 71;
  gpu.processes = {{17, 4'000'000, 0, 0}, {18, nvml::kMemoryUnknown, 0, 0}};
  ASSERT_OK_AND_ASSIGN(const auto driver, Load());
  ASSERT_OK_AND_ASSIGN(const GpuReading reading, driver->Read(1));
  EXPECT_EQ(reading.used_bytes, 5'000'000);
  EXPECT_EQ(reading.uncorrected_ecc, 3u);
  EXPECT_EQ(reading.temperature, 71);
  EXPECT_EQ(reading.slowdown_temperature, 90);
  ASSERT_EQ(reading.processes.size(), 2u);
  EXPECT_EQ(reading.processes[0].pid, 17);
  EXPECT_EQ(reading.processes[0].memory_bytes, 4'000'000);
  EXPECT_FALSE(reading.processes[1].memory_bytes.has_value());
  EXPECT_THAT(driver->Read(4), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(driver->Read(-1), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(NvmlTest, TakesEachXidOnce) {
  ASSERT_OK_AND_ASSIGN(const auto driver, Load());
  state_->xids = {{2, 79}, {0, 31}, {77, 1}};
  ASSERT_OK_AND_ASSIGN(auto xids, driver->PopXids());
  ASSERT_EQ(xids.size(), 2u) << "of GPUs that exist";
  EXPECT_EQ(xids[0].gpu, 2);
  EXPECT_EQ(xids[0].xid, 79u);
  EXPECT_EQ(xids[1].xid, 31u);
  ASSERT_OK_AND_ASSIGN(xids, driver->PopXids());
  EXPECT_TRUE(xids.empty());
}

TEST_F(NvmlTest, ErrorsOfLoadingAreTold) {
  for (const char* call :
       {"nvmlInit_v2", "nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetMemoryInfo"}) {
    state_->errors = {{call, 999}};
    EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kUnavailable,
                                 HasSubstr(std::string(call) +
                                           ": a text of NVML (999)")));
  }
  state_->errors = {{"nvmlInit_v2", nvml::kDriverNotLoaded}};
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(NvmlTest, WhatIsNotSupportedStaysUnknown) {
  for (const char* call :
       {"nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetTemperature",
        "nvmlDeviceGetTemperatureThreshold",
        "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetTopologyCommonAncestor", "nvmlDeviceGetNvLinkState",
        "nvmlEventSetCreate", "nvmlDeviceRegisterEvents"}) {
    state_->errors[call] = nvml::kNotSupported;
  }
  ASSERT_OK_AND_ASSIGN(const auto driver, Load());
  EXPECT_EQ(driver->gpus()[0].topology(), "");
  ASSERT_OK_AND_ASSIGN(const GpuReading reading, driver->Read(0));
  EXPECT_FALSE(reading.uncorrected_ecc.has_value());
  EXPECT_FALSE(reading.temperature.has_value());
  EXPECT_TRUE(reading.processes.empty());
  state_->xids = {{0, 79}};
  ASSERT_OK_AND_ASSIGN(const auto xids, driver->PopXids());
  EXPECT_TRUE(xids.empty());
}

TEST_F(NvmlTest, ErrorsOfReadingAreTold) {
  ASSERT_OK_AND_ASSIGN(const auto driver, Load());
  for (const char* call :
       {"nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetTemperature",
        "nvmlDeviceGetTemperatureThreshold",
        "nvmlDeviceGetComputeRunningProcesses_v3"}) {
    state_->errors = {{call, 15}};  // the GPU is lost
    EXPECT_THAT(driver->Read(0),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr(call)));
  }
  state_->errors = {{"nvmlDeviceGetMemoryInfo_v2", 15},
                    {"nvmlDeviceGetMemoryInfo", 15}};
  EXPECT_THAT(driver->Read(0), StatusIs(absl::StatusCode::kUnavailable));
  state_->errors = {{"nvmlEventSetWait_v2", 999}};
  EXPECT_THAT(driver->PopXids(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(NvmlTest, TextsAreCutAndCleaned) {
  state_->gpus[0].name = std::string("odd\x01\xffname");
  ASSERT_OK_AND_ASSIGN(const auto driver, Load());
  EXPECT_EQ(driver->gpus()[0].name(), "odd??name");
  state_->gpus[1].uuid.clear();
  EXPECT_THAT(Load(), StatusIs(absl::StatusCode::kInternal));
  state_->gpus.resize(1000);
  EXPECT_THAT(Load(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("1000 GPUs")));
}

TEST(NvmlLibraryTest, NoLibraryIsNotFound) {
  EXPECT_THAT(LoadNvml(Library("libabsent.so")),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST(NvmlLibraryTest, ALibraryWithoutTheFunctionsIsTooOld) {
  EXPECT_THAT(LoadNvml(Library("libno_nvml.so")),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("nvmlInit_v2")));
}

TEST(NvmlLibraryTest, AnOldDriverTellsLess) {
  const std::string library = Library("libold_nvml.so");
  void* const handle = dlopen(library.c_str(), RTLD_NOW);
  ASSERT_NE(handle, nullptr) << dlerror();
  FakeNvmlState* const state = reinterpret_cast<FakeNvmlState* (*)()>(
      dlsym(handle, "fake_nvml_state"))();
  state->gpus.resize(2);
  state->gpus[0].uuid = "GPU-a";
  state->gpus[0].total = 1000;
  state->gpus[0].used = 100;
  state->gpus[1].uuid = "GPU-b";
  {
    ASSERT_OK_AND_ASSIGN(const auto driver, LoadNvml(library));
    EXPECT_EQ(driver->gpus()[0].topology(), "");
    ASSERT_OK_AND_ASSIGN(const GpuReading reading, driver->Read(0));
    EXPECT_EQ(reading.used_bytes, 100);
    EXPECT_FALSE(reading.temperature.has_value());
    EXPECT_OK(driver->PopXids());
  }
  dlclose(handle);
}

}  // namespace
}  // namespace comera::worker
