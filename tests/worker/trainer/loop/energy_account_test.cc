// The energy of a job: of all members, over all attempts.
#include "worker/trainer/loop/energy_account.h"

#include <thread>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/loop/trainer_harness.h"
#include "worker/collective/in_process_communicator.h"
#include "worker/energy/energy_meter.h"

namespace comera::trainer {
namespace {

// Counts so many joules between two questions.
class SteadyMeter : public energy::EnergyMeter {
 public:
  explicit SteadyMeter(double step) : step_(step) {}
  double Joules() override { return joules_ += step_; }

 private:
  const double step_;
  double joules_ = 0;
};

class SettableMeter : public energy::EnergyMeter {
 public:
  double Joules() override { return joules; }
  double joules = 0;
};

TEST(EnergyAccountTest, NothingIsKnownWithoutAMeter) {
  EnergyAccount account(nullptr, nullptr);
  EXPECT_OK(account.Share());
  EXPECT_EQ(account.Joules(), 0);
}

TEST(EnergyAccountTest, AddsUpAttemptsAndMembers) {
  auto gang = collective::CreateInProcessGroup(3);
  // The machine of member 2 tells nothing.
  std::vector<SettableMeter> meters(2);
  std::vector<double> known(3);
  std::vector<std::thread> threads;
  for (int member = 0; member < 3; ++member) {
    threads.emplace_back([&, member] {
      SettableMeter* const meter = member < 2 ? &meters[member] : nullptr;
      EnergyAccount account(meter, gang[member].get());
      account.Begin(100);
      for (int round = 1; round <= 2; ++round) {
        if (meter != nullptr) meter->joules = round * (member == 0 ? 1 : 10);
        EXPECT_OK(account.Share());
      }
      // Not shared yet.
      if (meter != nullptr) meter->joules += 0.5;
      known[member] = account.Joules();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_DOUBLE_EQ(known[0], 100 + 2.5 + 20);
  EXPECT_DOUBLE_EQ(known[1], 100 + 2 + 20.5);
  EXPECT_DOUBLE_EQ(known[2], 100 + 2 + 20);
}

TEST(EnergyAccountTest, AJobReportsItAndKeepsItOverAResume) {
  FakeDisk disk;
  double last = 0;
  for (const bool resume : {false, true}) {
    std::vector<SteadyMeter> meters(2, SteadyMeter(2));
    TestRun run;
    run.disk = &disk;
    run.resume = resume;
    run.stop_after_step = resume ? 0 : 15;
    run.energy_of = [&](int member) { return &meters[member]; };
    run.Run(/*members=*/2);
    ASSERT_OK(run.end);
    const auto metrics = run.Select(&v1::TrainerEvent::has_metrics);
    for (const v1::TrainerEvent& event : metrics) {
      EXPECT_GT(event.metrics().energy_joules(), last);
      last = event.metrics().energy_joules();
    }
    if (resume) {
      EXPECT_GE(run.end->result.energy_joules(), last);
    }
  }
}

TEST(EnergyAccountTest, AJobThatKnowsNothingReportsNothing) {
  TestRun run;
  run.Run();
  ASSERT_OK(run.end);
  for (const v1::TrainerEvent& event :
       run.Select(&v1::TrainerEvent::has_metrics)) {
    EXPECT_EQ(event.metrics().energy_joules(), 0);
  }
  EXPECT_EQ(run.end->result.energy_joules(), 0);
}

}  // namespace
}  // namespace comera::trainer
