// Checks which readings and events make a GPU unfit, and when it is fit again.

#include "worker/gpu/gpu_watch.h"

#include <future>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_gpu_driver.h"
#include "worker/gpu/gpu_topology.h"

namespace comera::worker {
namespace {

using ::testing::HasSubstr;

class FakeClock : public Clock {
 public:
  absl::Time Now() override { return now; }
  absl::Time now = absl::UnixEpoch();
};

class GpuWatchTest : public testing::Test {
 protected:
  GpuWatchTest() {
    auto driver = std::make_unique<FakeGpuDriver>(2);
    driver_ = driver.get();
    GpuWatch::Options options;
    options.clock = &clock_;
    options.idle_bytes = 1 << 20;
    watch_ = std::make_unique<GpuWatch>(options, std::move(driver));
  }

  std::string Reason(int gpu) {
    return watch_->Unfit("GPU-" + std::to_string(gpu));
  }

  FakeClock clock_;
  FakeGpuDriver* driver_;
  std::unique_ptr<GpuWatch> watch_;
};

TEST_F(GpuWatchTest, AHealthyGpuIsFitOnceItWasSeen) {
  EXPECT_EQ(Reason(0), "not checked yet");
  EXPECT_TRUE(watch_->Poll());
  EXPECT_EQ(Reason(0), "");
  EXPECT_EQ(Reason(1), "");
  EXPECT_FALSE(watch_->Poll()) << "nothing changed";
  EXPECT_EQ(watch_->Unfit("GPU-9"), "no such GPU");
}

TEST_F(GpuWatchTest, UncorrectedMemoryErrors) {
  GpuReading reading;
  reading.uncorrected_ecc = 2;
  driver_->Set(1, reading);
  watch_->Poll();
  EXPECT_EQ(Reason(0), "");
  EXPECT_THAT(Reason(1), HasSubstr("2 uncorrected memory errors"));
}

TEST_F(GpuWatchTest, CriticalXidsStay) {
  driver_->AddXid(0, 79);
  driver_->AddXid(7, 79);  // an unknown GPU
  watch_->Poll();
  EXPECT_THAT(Reason(0), HasSubstr("Xid 79"));
  watch_->Poll();
  EXPECT_THAT(Reason(0), HasSubstr("Xid 79"));
  EXPECT_EQ(Reason(1), "");
}

TEST_F(GpuWatchTest, XidsOfProgramsAreNotTheGpusFault) {
  for (uint64_t xid : {13, 31, 43, 45}) driver_->AddXid(0, xid);
  watch_->Poll();
  EXPECT_EQ(Reason(0), "");
}

TEST_F(GpuWatchTest, HotUntilItHasCooled) {
  GpuReading reading;
  reading.slowdown_temperature = 90;
  for (const auto& [degrees, fit] : std::vector<std::pair<int, bool>>{
           {89, true}, {90, false}, {86, false}, {84, true}, {89, true}}) {
    reading.temperature = degrees;
    driver_->Set(0, reading);
    watch_->Poll();
    EXPECT_EQ(Reason(0).empty(), fit) << degrees << " " << Reason(0);
  }
}

TEST_F(GpuWatchTest, UnknownFiguresAreNoReason) {
  GpuReading reading;
  reading.temperature = 200;  // and no limit is known
  driver_->Set(0, reading);
  watch_->Poll();
  EXPECT_EQ(Reason(0), "");
}

TEST_F(GpuWatchTest, AGpuThatCannotBeRead) {
  driver_->Set(0, absl::UnavailableError("GPU is lost (15)"));
  watch_->Poll();
  EXPECT_EQ(Reason(0), "cannot be read: GPU is lost (15)");
  driver_->Set(0, GpuReading());
  watch_->Poll();
  EXPECT_EQ(Reason(0), "");
}

TEST_F(GpuWatchTest, StrangersHoldMemory) {
  GpuReading reading;
  reading.used_bytes = 3 << 20;
  reading.processes = {{4711, int64_t{2} << 20}, {4712, {}}};
  driver_->Set(0, reading);
  watch_->Poll();
  EXPECT_EQ(Reason(0),
            "somebody else computes there: 3 MiB in use, by process 4711 (2 "
            "MiB), 4712");
  reading.used_bytes = 1 << 20;  // allowed
  reading.processes.clear();
  driver_->Set(0, reading);
  watch_->Poll();
  EXPECT_EQ(Reason(0), "");
}

TEST_F(GpuWatchTest, AMemberMayHoldMemory) {
  watch_->Poll();
  watch_->Begin("GPU-0");
  GpuReading reading;
  reading.used_bytes = int64_t{70} << 30;
  reading.processes = {{1, {}}};
  driver_->Set(0, reading);
  watch_->Poll();
  EXPECT_EQ(Reason(0), "");
}

TEST_F(GpuWatchTest, AfterAMemberTheMemoryMustBeSeenToBeFree) {
  watch_->Poll();
  watch_->Begin("GPU-0");
  GpuReading reading;
  reading.used_bytes = int64_t{70} << 30;
  driver_->Set(0, reading);
  watch_->End("GPU-0");
  EXPECT_THAT(Reason(0), HasSubstr("not seen to be free yet"));
  for (int look = 0; look < 5; ++look) {
    clock_.now += absl::Seconds(1);
    EXPECT_FALSE(watch_->Poll());
    EXPECT_THAT(Reason(0), HasSubstr("not seen to be free yet"));
  }
  driver_->Set(0, GpuReading());
  EXPECT_TRUE(watch_->Poll());
  EXPECT_EQ(Reason(0), "");
}

TEST_F(GpuWatchTest, MemoryThatIsNotFreedIsTold) {
  watch_->Poll();
  watch_->Begin("GPU-0");
  GpuReading reading;
  reading.used_bytes = 5 << 20;
  reading.processes = {{99, {}}};
  driver_->Set(0, reading);
  watch_->End("GPU-0");
  clock_.now += absl::Seconds(31);
  watch_->Poll();
  EXPECT_EQ(
      Reason(0),
      "memory was not freed within 30s of the last member's end: 5 MiB in "
      "use, by process 99");
  driver_->Set(0, GpuReading());
  watch_->Poll();
  EXPECT_EQ(Reason(0), "");
}

TEST_F(GpuWatchTest, ANewMemberEndsTheWait) {
  watch_->Poll();
  watch_->Begin("GPU-0");
  watch_->End("GPU-0");
  watch_->Begin("GPU-0");
  watch_->Poll();
  EXPECT_EQ(Reason(0), "");
  watch_->End("GPU-0");
  watch_->End("GPU-0");  // once too often
  EXPECT_THAT(Reason(0), HasSubstr("not seen to be free yet"));
}

TEST_F(GpuWatchTest, TheThreadTellsOfChanges) {
  std::promise<void> first, second;
  int calls = 0;
  watch_->Start([&] {
    if (++calls == 1) first.set_value();
    if (calls == 2) second.set_value();
  });
  first.get_future().wait();
  EXPECT_EQ(Reason(0), "");
  watch_->Begin("GPU-0");
  watch_->End("GPU-0");
  second.get_future().wait();
  EXPECT_EQ(Reason(0), "");
}

TEST(GpuTopologyTest, WaysAreGathered) {
  EXPECT_EQ(DescribeTopology({"", "NVLink", "NVLink", "PCIe switch", ""}),
            "NVLink to 1, 2; PCIe switch to 3");
  EXPECT_EQ(DescribeTopology({""}), "");
}

}  // namespace
}  // namespace comera::worker
