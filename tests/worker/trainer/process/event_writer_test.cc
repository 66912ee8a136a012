// Events keep their order, and the important ones are never dropped.
#include "worker/trainer/process/event_writer.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "worker/trainer/process/heartbeat.h"
#include "worker/trainer/process/worker_lease.h"

namespace comera::trainer {
namespace {

v1::TrainerEvent Metrics(int64_t step) {
  v1::TrainerEvent event;
  event.mutable_metrics()->set_step(step);
  return event;
}

v1::TrainerEvent Checkpoint(int64_t step) {
  v1::TrainerEvent event;
  event.mutable_checkpoint()->set_step(step);
  return event;
}

// A reader that takes nothing until it is let go.
struct SlowReader {
  std::promise<void> taken_first, go;
  std::vector<std::string> lines;
  int seen = 0;

  EventWriter::WriteLine Writer() {
    return [this, gone = go.get_future().share()](const std::string& line) {
      if (seen++ == 0) taken_first.set_value();
      gone.wait();
      lines.push_back(line);
      return true;
    };
  }
};

TEST(EventWriterTest, LinesAreEventsInOrder) {
  std::vector<std::string> lines;
  {
    EventWriter writer([&](const std::string& line) {
      lines.push_back(line);
      return true;
    });
    for (int i = 1; i <= 5; ++i) writer.Write(Metrics(i));
  }
  ASSERT_EQ(lines.size(), 5u);
  for (int i = 0; i < 5; ++i) {
    v1::TrainerEvent event;
    ASSERT_TRUE(
        google::protobuf::util::JsonStringToMessage(lines[i], &event).ok())
        << lines[i];
    EXPECT_EQ(event.metrics().step(), i + 1);
    EXPECT_TRUE(event.has_time());
    EXPECT_EQ(lines[i].find('\n'), lines[i].size() - 1);
  }
}

TEST(EventWriterTest, MetricsGiveWayFirstAndWritingNeverWaits) {
  SlowReader reader;
  {
    EventWriter writer(reader.Writer(), /*capacity=*/4);
    writer.Write(Metrics(0));
    reader.taken_first.get_future().wait();
    for (int i = 1; i <= 4; ++i) writer.Write(Metrics(i));  // full now
    for (int i = 1; i <= 6; ++i) writer.Write(Checkpoint(i));
    writer.Write(Metrics(99));  // no room, and nothing that gives way
    EXPECT_EQ(writer.dropped(), 5);
    reader.go.set_value();
  }
  ASSERT_EQ(reader.lines.size(), 7u);
  EXPECT_TRUE(absl::StrContains(reader.lines[0], "metrics"));
  for (int i = 1; i <= 6; ++i) {
    EXPECT_TRUE(absl::StrContains(reader.lines[i], "checkpoint"));
    EXPECT_TRUE(absl::StrContains(reader.lines[i], std::to_string(i)));
  }
}

// A full real pipe drops no important event either.
TEST(EventWriterTest, Complaint17_AFullPipeDoesNotHoldUpTheStep) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  fcntl(ends[1], F_SETPIPE_SZ, 1);
  constexpr int kSteps = 20000;
  constexpr size_t kCapacity = 100;
  std::string text;
  std::thread reader;
  {
    EventWriter writer(EventWriter::ToDescriptor(ends[1]), kCapacity);
    // Comes back from each though nobody reads: else the test hangs.
    for (int i = 1; i <= kSteps; ++i) writer.Write(Metrics(i));
    writer.Write(Checkpoint(kSteps));
    // A page's worth, the event that is being written and those that wait.
    EXPECT_GT(writer.dropped(), kSteps - 1000);
    reader = std::thread([&] {
      char buffer[4096];
      for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) {
        text.append(buffer, n);
      }
    });
  }
  close(ends[1]);
  reader.join();
  close(ends[0]);
  EXPECT_TRUE(absl::StrContains(text, "checkpoint"));
  // The newest samples are those that stay.
  EXPECT_TRUE(absl::StrContains(text, absl::StrCat("\"", kSteps, "\"")));
}

TEST(EventWriterTest, FlushWaitsForTheReader) {
  SlowReader reader;
  EventWriter writer(reader.Writer());
  writer.Write(Checkpoint(1));
  writer.Write(Checkpoint(2));
  reader.go.set_value();
  writer.Flush();
  EXPECT_EQ(reader.lines.size(), 2u);
}

TEST(EventWriterTest, AReaderThatIsGoneStopsNothing) {
  int pipe_ends[2];
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  close(pipe_ends[0]);
  signal(SIGPIPE, SIG_IGN);
  EventWriter writer(EventWriter::ToDescriptor(pipe_ends[1]));
  for (int i = 0; i < 3; ++i) writer.Write(Checkpoint(i));
  writer.Flush();
  close(pipe_ends[1]);
}

TEST(EventWriterTest, LongLinesArriveWhole) {
  int pipe_ends[2];
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  v1::TrainerEvent event;
  event.mutable_failure()->set_message(std::string(300000, 'x'));
  std::string received;
  {
    EventWriter writer(EventWriter::ToDescriptor(pipe_ends[1]));
    writer.Write(event);
    writer.Write(Checkpoint(2));
    // A pipe holds 64 KiB: the writer's thread has to wait for this reader.
    while (std::count(received.begin(), received.end(), '\n') < 2) {
      char buffer[4096];
      const ssize_t n = read(pipe_ends[0], buffer, sizeof(buffer));
      ASSERT_GT(n, 0);
      received.append(buffer, n);
    }
  }
  const std::vector<std::string> lines = absl::StrSplit(received, '\n');
  ASSERT_EQ(lines.size(), 3u);
  v1::TrainerEvent first;
  ASSERT_TRUE(
      google::protobuf::util::JsonStringToMessage(lines[0], &first).ok());
  EXPECT_EQ(first.failure().message().size(), 300000u);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

TEST(HeartbeatThreadTest, TellsAtOnceAndAgain) {
  Activity activity;
  activity.Set(v1::EARLY, 3, "validating");
  std::mutex mutex;
  std::condition_variable more;
  std::vector<v1::TrainerEvent> events;
  HeartbeatThread heartbeat(
      &activity,
      [&](const v1::TrainerEvent& event) {
        const std::lock_guard<std::mutex> lock(mutex);
        events.push_back(event);
        more.notify_one();
      },
      absl::Milliseconds(1));
  std::unique_lock<std::mutex> lock(mutex);
  ASSERT_TRUE(more.wait_for(lock, std::chrono::seconds(30),
                            [&] { return events.size() >= 3; }));
  EXPECT_EQ(events[0].heartbeat().step(), 3);
  EXPECT_EQ(events[0].heartbeat().stage(), v1::EARLY);
  EXPECT_EQ(events[0].heartbeat().activity(), "validating");
}

TEST(HeartbeatThreadTest, EndsWithoutWaitingForTheNextBeat) {
  Activity activity;
  int beats = 0;
  {
    HeartbeatThread heartbeat(
        &activity, [&](const v1::TrainerEvent&) { ++beats; }, absl::Hours(1));
  }
  EXPECT_LE(beats, 1);
}

TEST(EventWriterTest, WaitsForRoomOnAFullDisk) {
  const int descriptor = open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  std::future<bool> written = std::async(std::launch::async, [&] {
    return EventWriter::ToDescriptor(descriptor,
                                     absl::Milliseconds(1))("a line\n");
  });
  EXPECT_EQ(written.wait_for(std::chrono::milliseconds(20)),
            std::future_status::timeout);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(dup2(ends[1], descriptor), descriptor);  // there is room now
  EXPECT_TRUE(written.get());
  char line[16] = {};
  EXPECT_EQ(read(ends[0], line, sizeof(line)), 7);
  EXPECT_STREQ(line, "a line\n");
  for (int fd : {descriptor, ends[0], ends[1]}) close(fd);
}

TEST(WorkerLeaseTest, HoldsAsLongAsTheStampChanges) {
  const absl::Time start = absl::FromUnixSeconds(1000);
  WorkerLease lease(absl::Seconds(10), start);
  EXPECT_TRUE(lease.Holds(5, start + absl::Seconds(9)));
  EXPECT_TRUE(lease.Holds(5, start + absl::Seconds(18)));
  // The clock of the files went back: that is a change, too.
  EXPECT_TRUE(lease.Holds(4, start + absl::Seconds(18)));
  EXPECT_TRUE(lease.Holds(std::nullopt, start + absl::Seconds(27)));
  EXPECT_FALSE(lease.Holds(4, start + absl::Seconds(28)));
  EXPECT_FALSE(lease.Holds(std::nullopt, start + absl::Seconds(99)));
  // The worker is back.
  EXPECT_TRUE(lease.Holds(6, start + absl::Seconds(100)));
}

TEST(WorkerLeaseTest, WithoutAFileItEnds) {
  const absl::Time start = absl::FromUnixSeconds(1000);
  WorkerLease lease(absl::Seconds(10), start);
  EXPECT_TRUE(lease.Holds(std::nullopt, start));
  EXPECT_FALSE(lease.Holds(std::nullopt, start + absl::Seconds(10)));
}

}  // namespace
}  // namespace comera::trainer
