// Checks the screen of comera top and its keys, without a terminal.

#include "client/cli/live/top_view.h"

#include "absl/strings/str_cat.h"
#include "client/cli/output/text_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const absl::Time kNow = absl::FromUnixSeconds(1700000600);

v1::Job MakeJob(const std::string& id, v1::JobState state, int64_t step) {
  v1::Job job;
  job.set_name("jobs/" + id);
  job.set_state(state);
  job.mutable_create_time()->set_seconds(1700000000);
  job.mutable_spec()->set_display_name("run-" + id);
  job.mutable_spec()->set_queue("default");
  v1::JobProgress* progress = job.mutable_progress();
  progress->set_step(step);
  progress->set_total_steps(100);
  progress->set_loss(4.2);
  progress->set_target_loss(3.1);
  progress->set_size_parameters(1000000);
  progress->set_target_size_parameters(500000);
  if (state == v1::RUNNING) progress->mutable_eta()->set_seconds(100 - step);
  return job;
}

TopState State() {
  TopState state;
  state.server = "train.example.com:7400";
  state.time = kNow - absl::Seconds(1);
  state.jobs = {MakeJob("bbb", v1::RUNNING, 25), MakeJob("aaa", v1::QUEUED, 0),
                MakeJob("ccc", v1::RUNNING, 75)};
  state.total_jobs = 3;
  for (int i = 0; i < 9; ++i) {
    v1::WorkerSummary worker;
    worker.set_name(absl::StrCat("workers/node-", i));
    worker.set_slots(4);
    worker.set_busy_slots(i == 0 ? 4 : 0);
    worker.set_connected(i != 1);
    state.workers.push_back(worker);
  }
  v1::Queue queue;
  queue.set_name("queues/default");
  queue.set_queued_jobs(1);
  state.queues.push_back(queue);
  return state;
}

std::string Text(const std::vector<StyledLine>& lines) {
  std::string text;
  for (const StyledLine& line : lines) text += PlainText(line) + "\n";
  return text;
}

KeyPress Letter(const std::string& text) { return {Key::kText, text}; }

class TopViewTest : public ::testing::Test {
 protected:
  TopAction Press(const KeyPress& key) {
    return PressKey(key, state_, &choice_, &cancelled_);
  }
  std::vector<std::string> Ids() {
    std::vector<std::string> ids;
    for (const v1::Job* job : ShownJobs(state_, choice_)) {
      ids.push_back(LastSegment(job->name()));
    }
    return ids;
  }
  std::string Screen(int width = 120, int height = 30) {
    return Text(TopScreen(state_, choice_, kNow, width, height));
  }

  TopState state_ = State();
  TopChoice choice_;
  std::string cancelled_;
};

TEST_F(TopViewTest, ShowsJobsWorkersAndQueues) {
  const std::string screen = Screen(160, 30);
  EXPECT_THAT(screen, StartsWith("comera top  2 running of 3 jobs  4/36 slots "
                                 "of 9 workers  by newest"));
  EXPECT_THAT(screen, HasSubstr("25%"));
  EXPECT_THAT(screen, HasSubstr("4.200→3.100"));
  EXPECT_THAT(screen, HasSubstr("1.00M→500.0k"));
  EXPECT_THAT(screen, HasSubstr("1m15s"));
  EXPECT_THAT(screen, HasSubstr("node-0"));
  EXPECT_THAT(screen, HasSubstr("… 4 more"));
  EXPECT_THAT(screen, HasSubstr("QUEUE"));
  EXPECT_THAT(screen, HasSubstr("q quit"));
}

TEST_F(TopViewTest, FitsEveryTerminal) {
  for (const bool details : {false, true}) {
    choice_.details = details;
    for (int width = 1; width < 200; width += 13) {
      for (int height = 1; height < 60; height += 7) {
        const auto lines = TopScreen(state_, choice_, kNow, width, height);
        EXPECT_EQ(lines.size(), static_cast<size_t>(height));
        for (const StyledLine& line : lines) {
          EXPECT_LE(DisplayWidth(PlainText(line)), static_cast<size_t>(width));
        }
      }
    }
  }
}

TEST_F(TopViewTest, FortyColumnsStillTellTheState) {
  const std::string screen = Screen(40, 20);
  for (const char* text : {"bbb", "RUNNING", "QUEUED", "25%", "node-0"}) {
    EXPECT_THAT(screen, HasSubstr(text));
  }
}

TEST_F(TopViewTest, SortsByWhatIsAsked) {
  EXPECT_THAT(Ids(), ElementsAre("bbb", "aaa", "ccc"));
  Press(Letter("s"));
  EXPECT_THAT(Ids(), ElementsAre("aaa", "bbb", "ccc")) << "state";
  Press(Letter("s"));
  EXPECT_THAT(Ids(), ElementsAre("ccc", "bbb", "aaa")) << "progress";
  Press(Letter("s"));
  EXPECT_THAT(Ids(), ElementsAre("ccc", "bbb", "aaa")) << "ETA";
  Press(Letter("s"));
  EXPECT_THAT(Ids(), ElementsAre("aaa", "bbb", "ccc")) << "name";
  Press(Letter("s"));
  EXPECT_EQ(choice_.sort, TopSort::kNewest);
}

TEST_F(TopViewTest, TheSelectionStaysWithItsJob) {
  Press({Key::kDown, ""});
  EXPECT_EQ(choice_.job, "jobs/aaa");
  Press(Letter("s"));  // it comes first now
  EXPECT_EQ(choice_.job, "jobs/aaa");
  Press(Letter("k"));
  EXPECT_EQ(choice_.job, "jobs/aaa");
  Press({Key::kEnd, ""});
  EXPECT_EQ(choice_.job, "jobs/ccc");
  state_.jobs.clear();
  Press(Letter("j"));
  EXPECT_THAT(Screen(), HasSubstr("no job is waiting or running"));
}

TEST_F(TopViewTest, FiltersWhileTyping) {
  Press(Letter("/"));
  Press(Letter("Q"));  // not quit
  Press(Letter("ü"));
  EXPECT_THAT(Screen(), HasSubstr("filter: Qü▏"));
  EXPECT_THAT(Ids(), testing::IsEmpty());
  Press(Letter("x"));
  Press({Key::kBackspace, ""});
  EXPECT_EQ(choice_.filter, "Qü");
  Press({Key::kBackspace, ""});
  EXPECT_EQ(choice_.filter, "Q");
  Press(Letter("ueued"));
  EXPECT_THAT(Ids(), ElementsAre("aaa"));
  Press({Key::kEnter, ""});
  EXPECT_THAT(Screen(), HasSubstr("[Queued]"));
  Press({Key::kEscape, ""});
  EXPECT_EQ(Ids().size(), 3u);
}

TEST_F(TopViewTest, CancelsOnlyAfterAYes) {
  EXPECT_EQ(Press(Letter("c")), TopAction::kNone);
  EXPECT_THAT(Screen(), HasSubstr("cancel jobs/bbb? y: yes, n: no"));
  EXPECT_EQ(Press({Key::kEnter, ""}), TopAction::kNone);
  EXPECT_THAT(Screen(), Not(HasSubstr("cancel jobs/bbb?")));
  Press(Letter("c"));
  EXPECT_EQ(Press(Letter("q")), TopAction::kNone) << "no";
  Press(Letter("c"));
  EXPECT_EQ(Press(Letter("y")), TopAction::kCancel);
  EXPECT_EQ(cancelled_, "jobs/bbb");
  EXPECT_THAT(Screen(), HasSubstr("cancelling jobs/bbb"));
}

TEST_F(TopViewTest, KeysThatAskAndQuit) {
  EXPECT_EQ(Press(Letter("q")), TopAction::kQuit);
  EXPECT_EQ(Press({Key::kClosed, ""}), TopAction::kQuit);
  EXPECT_EQ(Press(Letter(" ")), TopAction::kRefresh);
  EXPECT_EQ(Press(Letter("r")), TopAction::kRefresh);
  EXPECT_EQ(choice_.interval_s, 5);
  for (int i = 0; i < 3; ++i) Press(Letter("r"));
  EXPECT_EQ(choice_.interval_s, 1);
  EXPECT_EQ(Press({Key::kNone, ""}), TopAction::kNone);
  EXPECT_EQ(Press(Letter("ß")), TopAction::kNone);
}

TEST_F(TopViewTest, DetailsOfTheJob) {
  state_.jobs[0].set_reason("on \x1b[31m node-0");
  Press({Key::kEnter, ""});
  const std::string screen = Screen();
  EXPECT_THAT(screen, HasSubstr("jobs/bbb"));
  EXPECT_THAT(screen, HasSubstr("run-bbb"));
  EXPECT_THAT(screen, HasSubstr("25/100"));
  EXPECT_THAT(screen, Not(HasSubstr("\x1b")));
  Press({Key::kEscape, ""});
  EXPECT_FALSE(choice_.details);
}

TEST_F(TopViewTest, SaysWhatItDoesNotKnow) {
  TopState nothing;
  state_ = nothing;
  EXPECT_THAT(Screen(), HasSubstr("asking ..."));
  state_.error = "nobody is there";
  EXPECT_THAT(Screen(), HasSubstr("nobody is there"));
  state_ = State();
  state_.time = kNow - absl::Minutes(2);
  EXPECT_THAT(Screen(), HasSubstr("as of 2m00s ago"));
}

}  // namespace
}  // namespace comera::client
