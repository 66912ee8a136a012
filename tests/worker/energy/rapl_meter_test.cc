// Reads the processors' counters from a folder that looks like Linux'.
#include "worker/energy/rapl_meter.h"

#include <filesystem>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/worker/trainer/data/temp_folder.h"
#include "worker/energy/open_energy_meter.h"

namespace comera::energy {
namespace {

class RaplMeterTest : public ::testing::Test {
 protected:
  void Zone(const std::string& zone, const std::string& name,
            const std::string& microjoules) {
    std::filesystem::create_directories(folder_ / zone);
    folder_.Write(zone + "/name", name + "\n");
    folder_.Write(zone + "/max_energy_range_uj", "262143328850\n");
    Set(zone, microjoules);
  }
  void Set(const std::string& zone, const std::string& microjoules) {
    folder_.Write(zone + "/energy_uj", microjoules + "\n");
  }

  const trainer::TempFolder folder_;
};

TEST_F(RaplMeterTest, AddsPackagesAndMemoryButNothingTwice) {
  Zone("intel-rapl:0", "package-0", "1000000");
  Zone("intel-rapl:0:0", "core", "500000");
  Zone("intel-rapl:0:1", "dram", "100");
  Zone("intel-rapl:1", "package-1", "2000000");
  Zone("intel-rapl:2", "psys", "9000000");
  Zone("intel-rapl-mmio:0", "package-0", "1000000");
  const auto meter = OpenRaplMeter(folder_.path());
  ASSERT_NE(meter, nullptr);
  EXPECT_EQ(meter->Joules(), 0);
  Set("intel-rapl:0", "4000000");
  Set("intel-rapl:0:0", "3500000");
  Set("intel-rapl:0:1", "500100");
  Set("intel-rapl:1", "2250000");
  Set("intel-rapl:2", "99000000");
  Set("intel-rapl-mmio:0", "4000000");
  EXPECT_DOUBLE_EQ(meter->Joules(), 3 + 0.5 + 0.25);
  EXPECT_DOUBLE_EQ(meter->Joules(), 3 + 0.5 + 0.25);
}

TEST_F(RaplMeterTest, CountersWrapAround) {
  Zone("intel-rapl:0", "package-0", "262143000000");
  const auto meter = OpenRaplMeter(folder_.path());
  ASSERT_NE(meter, nullptr);
  Set("intel-rapl:0", "1000000");
  EXPECT_NEAR(meter->Joules(), 1 + 0.32885, 1e-9);
}

TEST_F(RaplMeterTest, WhatCannotBeReadIsNotThere) {
  EXPECT_EQ(OpenRaplMeter(folder_ / "missing"), nullptr);
  EXPECT_EQ(OpenRaplMeter(folder_.path()), nullptr);
  Zone("intel-rapl:0", "package-0", "not for you");
  EXPECT_EQ(OpenRaplMeter(folder_.path()), nullptr);
  EnergySources sources;
  sources.powercap = folder_.path();
  EXPECT_EQ(OpenEnergyMeter(sources), nullptr);
  sources.processors = true;
  EXPECT_EQ(OpenEnergyMeter(sources), nullptr);
  Set("intel-rapl:0", "7");
  EXPECT_NE(OpenEnergyMeter(sources), nullptr);
}

TEST_F(RaplMeterTest, ACounterThatGoesAwayStandsStill) {
  Zone("intel-rapl:0", "package-0", "0");
  const auto meter = OpenRaplMeter(folder_.path());
  ASSERT_NE(meter, nullptr);
  Set("intel-rapl:0", "2000000");
  EXPECT_DOUBLE_EQ(meter->Joules(), 2);
  std::filesystem::remove_all(folder_ / "intel-rapl:0");
  EXPECT_DOUBLE_EQ(meter->Joules(), 2);
}

}  // namespace
}  // namespace comera::energy
