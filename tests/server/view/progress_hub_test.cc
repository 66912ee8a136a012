// Tests what slow and fast readers of events get.
#include "server/view/progress_hub.h"

#include <deque>
#include <functional>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::server {
namespace {

using ::testing::ElementsAre;

v1::Job RunningJob() {
  v1::Job job;
  job.set_name("jobs/a");
  job.set_state(v1::RUNNING);
  return job;
}

v1::JobEvent Metrics(int64_t sequence) {
  v1::JobEvent event;
  event.set_job("jobs/a");
  event.set_sequence(sequence);
  event.mutable_metrics()->set_step(sequence);
  return event;
}

v1::JobEvent State(int64_t sequence, v1::JobState state) {
  v1::JobEvent event;
  event.set_job("jobs/a");
  event.set_sequence(sequence);
  event.mutable_state_change()->set_state(state);
  return event;
}

// "job", "m3" (metrics), "s4" (state), "d2@9" (two dropped up to 9).
std::vector<std::string> Drain(Subscription& reader) {
  std::vector<std::string> items;
  while (auto item = reader.Pop()) {
    if (item->has_job()) {
      items.push_back("job");
      continue;
    }
    const v1::JobEvent& event = item->event();
    const std::string sequence = std::to_string(event.sequence());
    if (event.has_metrics()) items.push_back("m" + sequence);
    if (event.has_state_change()) items.push_back("s" + sequence);
    if (event.has_dropped()) {
      items.push_back("d" + std::to_string(event.dropped().count()) + "@" +
                      sequence);
    }
  }
  return items;
}

class ProgressHubTest : public ::testing::Test {
 protected:
  std::unique_ptr<Subscription> Subscribe(int64_t last, int64_t after = 0) {
    return hub_.Subscribe(RunningJob(), last, after, [this] { ++wakes_; });
  }

  ProgressHub hub_{{/*max_samples=*/3}};
  int wakes_ = 0;
};

TEST_F(ProgressHubTest, JobThenStoredThenLive) {
  auto reader = Subscribe(3, 1);
  hub_.Publish(Metrics(4));
  EXPECT_EQ(wakes_, 1);
  EXPECT_THAT(Drain(*reader), ElementsAre("job"));
  ASSERT_TRUE(reader->NeedsBackfill());
  EXPECT_EQ(reader->backfill_after(), 1);
  EXPECT_EQ(reader->backfill_last(), 3);
  reader->AddBackfill({State(2, v1::RUNNING)});
  EXPECT_THAT(Drain(*reader), ElementsAre("s2"));
  ASSERT_TRUE(reader->NeedsBackfill());
  reader->AddBackfill({Metrics(3)});
  EXPECT_THAT(Drain(*reader), ElementsAre("m3", "m4"));
  EXPECT_FALSE(reader->Finished());
  hub_.Publish(State(5, v1::SUCCEEDED));
  EXPECT_FALSE(reader->Finished());
  EXPECT_THAT(Drain(*reader), ElementsAre("s5"));
  EXPECT_TRUE(reader->Finished());
}

// Why a job waits is in no event, so that its readers get the job again.
TEST_F(ProgressHubTest, WaitingJobIsShownAgain) {
  v1::Job job = RunningJob();
  job.set_state(v1::QUEUED);
  job.set_reason("waiting for 4 CPU slots, none is connected");
  auto reader = hub_.Subscribe(job, 1, 0, [this] { ++wakes_; });
  EXPECT_EQ(reader->Pop()->job().reason(), job.reason());
  reader->AddBackfill({State(1, v1::QUEUED)});
  // The stored event says less than the job.
  EXPECT_EQ(reader->Pop()->event().sequence(), 1);
  EXPECT_EQ(reader->Pop()->job().reason(), job.reason());
  EXPECT_EQ(reader->Pop(), std::nullopt);
  EXPECT_TRUE(reader->Idle());

  job.set_reason("waiting for 4 CPU slots, the cluster has 2");
  hub_.Show(job);
  EXPECT_EQ(wakes_, 1);
  EXPECT_EQ(reader->Pop()->job().reason(), job.reason());
  // An event that came meanwhile is newer than what was to be shown.
  hub_.Show(job);
  hub_.Publish(State(2, v1::RUNNING));
  EXPECT_THAT(Drain(*reader), ElementsAre("s2"));
}

TEST_F(ProgressHubTest, ThinnedTailEndsTheBackfill) {
  auto reader = Subscribe(9);
  Drain(*reader);
  reader->AddBackfill({});
  EXPECT_FALSE(reader->NeedsBackfill());
}

TEST_F(ProgressHubTest, SlowReaderLosesSamplesButNoState) {
  auto reader = Subscribe(0);
  hub_.Publish(State(1, v1::STARTING));
  for (int64_t i = 2; i <= 6; ++i) hub_.Publish(Metrics(i));
  hub_.Publish(State(7, v1::RUNNING));
  for (int64_t i = 8; i <= 11; ++i) hub_.Publish(Metrics(i));
  hub_.Publish(State(12, v1::SUCCEEDED));
  EXPECT_THAT(Drain(*reader), ElementsAre("job", "s1", "d5@6", "s7", "d1@8",
                                          "m9", "m10", "m11", "s12"));
  EXPECT_TRUE(reader->Finished());
}

TEST_F(ProgressHubTest, ReadersAreApart) {
  auto slow = Subscribe(0), quick = Subscribe(0);
  std::vector<std::string> seen;
  for (int64_t i = 1; i <= 5; ++i) {
    hub_.Publish(Metrics(i));
    for (std::string& item : Drain(*quick)) seen.push_back(item);
  }
  EXPECT_THAT(seen, ElementsAre("job", "m1", "m2", "m3", "m4", "m5"));
  EXPECT_THAT(Drain(*slow), ElementsAre("job", "d2@2", "m3", "m4", "m5"));
  slow.reset();
  hub_.Publish(Metrics(6));
  EXPECT_THAT(Drain(*quick), ElementsAre("m6"));
}

TEST_F(ProgressHubTest, ManyReadersAreWokenInBursts) {
  std::deque<std::function<void()>> posted;
  ProgressHub hub({/*max_samples=*/3, /*burst=*/2});
  hub.Defer([&](std::function<void()> closure) {
    posted.push_back(std::move(closure));
  });
  std::vector<std::string> woken;
  std::map<std::string, std::unique_ptr<Subscription>> readers;
  for (const char* name : {"a", "b", "c", "d"}) {
    readers[name] = hub.Subscribe(RunningJob(), 0, 0, [&woken, &readers, name] {
      woken.push_back(name);
      // One that leaves takes another with it, which then is not woken.
      if (woken.size() == 2) readers.clear();
    });
  }
  auto last = hub.Subscribe(RunningJob(), 0, 0, [&] { woken.push_back("e"); });
  hub.Publish(Metrics(1));
  hub.Publish(Metrics(2));
  EXPECT_TRUE(woken.empty());
  ASSERT_EQ(posted.size(), 1u);
  posted.front()();
  EXPECT_EQ(woken.size(), 2u);
  ASSERT_EQ(posted.size(), 2u);
  posted.back()();
  EXPECT_EQ(woken.size(), 3u);
  EXPECT_EQ(woken.back(), "e");
  EXPECT_THAT(Drain(*last), ElementsAre("job", "m1", "m2"));
  EXPECT_EQ(posted.size(), 2u);
  hub.Publish(Metrics(3));
  EXPECT_EQ(posted.size(), 3u);
}

TEST_F(ProgressHubTest, FinalJobEndsAfterItsStoredEvents) {
  v1::Job job = RunningJob();
  job.set_state(v1::FAILED);
  auto reader = hub_.Subscribe(job, 2, 1, [] {});
  EXPECT_THAT(Drain(*reader), ElementsAre("job"));
  EXPECT_FALSE(reader->Finished());
  reader->AddBackfill({State(2, v1::FAILED)});
  EXPECT_THAT(Drain(*reader), ElementsAre("s2"));
  EXPECT_TRUE(reader->Finished());
}

}  // namespace
}  // namespace comera::server
