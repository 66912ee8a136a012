// Measured speeds are kept by machine, and bad files are passed over.
#include "worker/trainer/planning/calibration.h"

#include <string>

#include "common/files.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/data/temp_folder.h"

namespace comera::trainer {
namespace {

kernels::MachineSpeed Odd() {
  kernels::MachineSpeed speed;
  speed.threads = 3;
  speed.square_rate = 1.25e11;
  speed.skinny_rate = 4.5e10;
  speed.call_seconds = 3.5e-6;
  speed.bytes_per_second = 2e10;
  speed.math_rate = 1e9;
  speed.random_rate = 7e8;
  return speed;
}

TEST(CalibrationTest, FileKeepsTheNumbers) {
  TempFolder folder;
  const std::string cache = folder / "deep/cache";
  std::string why;
  const Machine machine = CpuMachine(3);
  EXPECT_NE(machine.name.find("3 threads"), std::string::npos);
  // None: the defaults, and nothing wrong.
  kernels::MachineSpeed defaults;
  defaults.threads = 3;
  EXPECT_TRUE(LoadCalibration(cache, machine, &why) == defaults);
  EXPECT_EQ(why, "");
  ASSERT_OK(SaveCalibration(cache, machine.name, Odd()));
  EXPECT_TRUE(LoadCalibration(cache, machine, &why) == Odd());
  EXPECT_EQ(why, "");
  // A GPU has its own defaults, by what it multiplies.
  const Machine gpu = GpuMachine("NVIDIA H200", kernels::GpuProducts::kBf16);
  EXPECT_EQ(gpu.name, "NVIDIA H200, BF16");
  EXPECT_TRUE(LoadCalibration(cache, gpu, &why) ==
              kernels::TypicalGpu(kernels::GpuProducts::kBf16));
  // What a GPU has besides is kept, too; a file without it counts for nothing.
  kernels::MachineSpeed fast = gpu.defaults;
  fast.scalar_rate *= 2;
  ASSERT_OK(SaveCalibration(cache, gpu.name, fast));
  EXPECT_TRUE(LoadCalibration(cache, gpu, &why) == fast);
  EXPECT_EQ(why, "");
  ASSERT_OK(SaveCalibration(cache, gpu.name, Odd()));
  EXPECT_TRUE(LoadCalibration(cache, gpu, &why) == gpu.defaults);
  EXPECT_NE(why.find("measure again"), std::string::npos) << why;
  // Another number of threads is another machine.
  EXPECT_EQ(LoadCalibration(cache, CpuMachine(2), &why).square_rate,
            defaults.square_rate);
}

TEST(CalibrationTest, DamagedFilesMeanDefaults) {
  TempFolder folder;
  const Machine machine = CpuMachine(3);
  const std::string path = CalibrationPath(folder.path(), machine.name);
  const std::string good = CalibrationJson(machine.name, Odd());
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[1]"),
        std::string(100000, ' '), good.substr(0, good.size() / 2),
        replaced("125000000000.0", "-1"), replaced("125000000000.0", "1e300"),
        replaced("125000000000.0", "\"fast\""), replaced("3 threads", "4 t"),
        replaced("\"threads\": 3", "\"threads\": 0"),
        replaced("\"version\": 1", "\"version\": 2"),
        replaced("math_rate", "meth_rate")}) {
    ASSERT_OK(WriteFileAtomically(path, text));
    std::string why;
    EXPECT_EQ(LoadCalibration(folder.path(), machine, &why).square_rate,
              kernels::MachineSpeed().square_rate);
    EXPECT_NE(why.find(path), std::string::npos) << text;
    EXPECT_THAT(ParseCalibration(text, machine.name),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

}  // namespace
}  // namespace comera::trainer
