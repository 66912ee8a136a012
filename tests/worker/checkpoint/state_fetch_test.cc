// Checks that a training state is put together from sources that break off,
// come back, lie or stand still.
#include "worker/checkpoint/state_fetch.h"

#include <stdlib.h>

#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::worker {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Makes a file as the trainer writes it.
std::string State(const std::string& text) {
  return absl::StrCat(text, "\nsha256 ", Sha256Hex(text), "\n");
}

// A source that does what the test says.
class FakeSource : public StateSource {
 public:
  FakeSource(std::string name, std::string contents)
      : name_(std::move(name)), contents_(std::move(contents)) {}

  std::string name() const override { return name_; }

  absl::Status Read(int64_t offset, const TransferLimits& limits,
                    const OnPart& part) override {
    offsets.push_back(offset);
    absl::Status end;
    if (!ends.empty()) {
      end = ends.front();
      ends.erase(ends.begin());
    }
    if (!end.ok() && bytes_before_end == 0) return end;
    const auto size = static_cast<int64_t>(contents_.size());
    if (offset > size) return absl::OutOfRangeError("too far");
    const size_t most = end.ok() ? contents_.size() : bytes_before_end;
    const absl::Status taken =
        part(claimed_size > 0 ? claimed_size : size,
             std::string_view(contents_).substr(offset, most));
    if (on_read) on_read(limits);
    return taken.ok() ? end : taken;
  }

  // How the next calls end, after `bytes_before_end` bytes; later ones are OK.
  std::vector<absl::Status> ends;
  size_t bytes_before_end = 0;
  int64_t claimed_size = 0;
  std::function<void(const TransferLimits&)> on_read;
  // Out: where each call began.
  std::vector<int64_t> offsets;

 private:
  const std::string name_;
  const std::string contents_;
};

class StateFetchTest : public ::testing::Test {
 protected:
  StateFetchTest() {
    options_.start_wait = absl::Minutes(1);
    options_.min_backoff = options_.max_backoff = absl::Milliseconds(1);
  }
  ~StateFetchTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  static std::string MakeFolder() {
    std::string folder = ::testing::TempDir() + "/fetch-XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    return folder;
  }

  FakeSource* Add(const std::string& name, const std::string& contents) {
    auto source = std::make_unique<FakeSource>(name, contents);
    FakeSource* const added = source.get();
    sources_.push_back(std::move(source));
    return added;
  }

  absl::StatusOr<std::string> Fetch() {
    return FetchState(options_, sources_, state_path_, on_progress_,
                      abandoned_);
  }

  std::string Fetched() {
    auto contents = ReadFile(path_);
    return contents.ok() ? *contents : contents.status().ToString();
  }

  const std::string folder_ = MakeFolder();
  const PathBelow state_path_ = {folder_, "work/state"};
  const std::string path_ = state_path_.ToString();
  const std::string temporary_ = path_ + ".tmp.fetch";
  StateFetchOptions options_;
  std::vector<std::unique_ptr<StateSource>> sources_;
  OnFetchProgress on_progress_;
  std::atomic<bool> abandoned_{false};
  const std::string state_ = State("the state of a training run");
};

TEST_F(StateFetchTest, TheNearestSourceBringsAll) {
  FakeSource* const near = Add("near", state_);
  FakeSource* const far = Add("far", state_);
  EXPECT_EQ(*Fetch(), "near");
  EXPECT_EQ(Fetched(), state_);
  EXPECT_THAT(near->offsets, ElementsAre(0));
  EXPECT_TRUE(far->offsets.empty());
  EXPECT_FALSE(std::filesystem::exists(temporary_));
}

TEST_F(StateFetchTest, ABrokenTransferGoesOnFromWhereItBroke) {
  FakeSource* const one = Add("one", state_);
  one->ends = {absl::UnavailableError("gone"), absl::UnavailableError("gone")};
  one->bytes_before_end = 10;
  EXPECT_EQ(*Fetch(), "one");
  EXPECT_EQ(Fetched(), state_);
  EXPECT_THAT(one->offsets, ElementsAre(0, 10, 20));
}

TEST_F(StateFetchTest, AnotherSourceGoesOn) {
  FakeSource* const one = Add("one", state_);
  one->ends = {absl::UnavailableError("gone")};
  one->bytes_before_end = 10;
  FakeSource* const two = Add("two", state_);
  EXPECT_EQ(*Fetch(), "two");
  EXPECT_EQ(Fetched(), state_);
  EXPECT_THAT(one->offsets, ElementsAre(0));
  EXPECT_THAT(two->offsets, ElementsAre(10));
}

TEST_F(StateFetchTest, WhatAnEarlierProcessFetchedIsGoneOnFrom) {
  ASSERT_OK(MakeDirectories(folder_ + "/work"));
  ASSERT_OK(WriteFileAtomically(temporary_, state_.substr(0, 7)));
  FakeSource* const one = Add("one", state_);
  EXPECT_OK(Fetch());
  EXPECT_THAT(one->offsets, ElementsAre(7));
  EXPECT_EQ(Fetched(), state_);
}

TEST_F(StateFetchTest, WhatAnEarlierProcessLeftAndIsOfNoUseGoes) {
  ASSERT_OK(MakeDirectories(folder_ + "/work"));
  for (const std::string& left : {std::string("another"), state_ + "more"}) {
    ASSERT_OK(WriteFileAtomically(temporary_, left));
    sources_.clear();
    FakeSource* const one = Add("one", state_);
    EXPECT_OK(Fetch());
    EXPECT_THAT(one->offsets, ElementsAre(left.size(), 0));
    EXPECT_EQ(Fetched(), state_);
  }
}

TEST_F(StateFetchTest, ADamagedCopyIsPassedOver) {
  std::string damaged = state_;
  damaged[3] ^= 1;
  FakeSource* const bad = Add("bad", damaged);
  FakeSource* const good = Add("good", state_);
  EXPECT_EQ(*Fetch(), "good");
  EXPECT_EQ(Fetched(), state_);
  EXPECT_THAT(bad->offsets, ElementsAre(0));
  EXPECT_THAT(good->offsets, ElementsAre(0));

  sources_.clear();
  std::filesystem::remove(path_);
  Add("bad", damaged);
  EXPECT_THAT(Fetch(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("bad: damaged")));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

// Two files of one state may differ in what is no part of the numbers.
TEST_F(StateFetchTest, PartsOfDifferentFilesAreNotPutTogether) {
  const std::string other = State("the state of another of them");
  for (const std::string& contents :
       {State("THE state of a training run"), other}) {
    std::filesystem::remove(path_);
    sources_.clear();
    FakeSource* const one = Add("one", contents);
    one->ends = std::vector<absl::Status>(2, absl::UnavailableError("gone"));
    one->bytes_before_end = 10;
    FakeSource* const two = Add("two", state_);
    two->ends = {absl::OkStatus(), absl::OkStatus()};
    EXPECT_EQ(*Fetch(), "two");
    EXPECT_EQ(Fetched(), state_);
    EXPECT_EQ(two->offsets.front(), 10);
    EXPECT_EQ(two->offsets.back(), 0);
  }
}

TEST_F(StateFetchTest, WhatNobodyHasFailsAtOnce) {
  options_.start_wait = absl::InfiniteDuration();
  Add("one", "")->ends = {absl::NotFoundError("no such")};
  Add("two", "")->ends = {absl::UnimplementedError("too old")};
  EXPECT_THAT(Fetch(), StatusIs(absl::StatusCode::kNotFound,
                                AllOf(HasSubstr("one: no such"),
                                      HasSubstr("two: too old"))));
  sources_.clear();
  EXPECT_THAT(Fetch(), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(StateFetchTest, ASourceMayComeBack) {
  FakeSource* const one = Add("one", state_);
  one->ends = std::vector<absl::Status>(5, absl::UnavailableError("away"));
  FakeSource* const two = Add("two", "");
  two->ends = {absl::NotFoundError("no such")};
  EXPECT_EQ(*Fetch(), "one");
  EXPECT_EQ(one->offsets.size(), 6u);
  EXPECT_EQ(two->offsets.size(), 1u);
}

TEST_F(StateFetchTest, WithoutProgressItEndsAfterTheWait) {
  options_.start_wait = absl::Milliseconds(20);
  FakeSource* const one = Add("one", state_);
  // Breaks off again and again before any byte.
  one->ends = std::vector<absl::Status>(1000, absl::UnavailableError("away"));
  EXPECT_THAT(Fetch(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                HasSubstr("one: away")));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(StateFetchTest, AFileThatIsLongerThanItSaysIsRefused) {
  Add("liar", state_)->claimed_size = 5;
  Add("giant", state_)->claimed_size = int64_t{1} << 60;
  FakeSource* const cut = Add("cut", state_);
  cut->claimed_size = static_cast<int64_t>(state_.size()) + 1;
  options_.start_wait = absl::Milliseconds(20);
  EXPECT_THAT(Fetch(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                AllOf(HasSubstr("liar: more comes"),
                                      HasSubstr("giant: it says"),
                                      HasSubstr("cut: it "))));
}

TEST_F(StateFetchTest, MessagesOfOthersAreBoundedAndPrintable) {
  for (int i = 0; i < 40; ++i) {
    Add(absl::StrCat("w", i), "")->ends = {
        absl::NotFoundError(std::string(10000, '\n'))};
  }
  const absl::Status status = Fetch().status();
  EXPECT_LT(status.message().size(), 3000u);
  EXPECT_THAT(std::string(status.message()), HasSubstr("and 28 more"));
  EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
}

TEST_F(StateFetchTest, AnAbandonedFetchEnds) {
  FakeSource* const one = Add("one", state_);
  one->ends = std::vector<absl::Status>(1000, absl::UnavailableError("away"));
  one->bytes_before_end = 1;
  one->on_read = [&](const TransferLimits& limits) {
    abandoned_ = true;
    EXPECT_TRUE(*limits.abandoned);
  };
  EXPECT_THAT(Fetch(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(one->offsets.size(), 1u);
}

TEST_F(StateFetchTest, ProgressIsTold) {
  std::vector<std::string> told;
  on_progress_ = [&](int64_t bytes, int64_t size, const std::string& source) {
    told.push_back(absl::StrCat(bytes, "/", size, " ", source));
  };
  FakeSource* const one = Add("one", state_);
  one->ends = {absl::UnavailableError("gone")};
  one->bytes_before_end = 10;
  EXPECT_OK(Fetch());
  const size_t size = state_.size();
  EXPECT_THAT(told,
              ElementsAre(absl::StrCat("10/", size, " one"),
                          absl::StrCat(size, "/", size, " one"),
                          absl::StrCat(size, "/", size, " the checksum")));
}

TEST_F(StateFetchTest, AFolderThatCannotBeMadeIsTheErrorOfThisMachine) {
  ASSERT_OK(WriteFileAtomically(folder_ + "/work", "a file"));
  Add("one", state_);
  EXPECT_FALSE(Fetch().ok());
  EXPECT_EQ(Fetched().find(state_), std::string::npos);
}

// The folder belongs to the job's user.
TEST_F(StateFetchTest, ALinkInThePlaceOfTheFileIsNotFollowed) {
  ASSERT_OK(MakeDirectories(folder_ + "/work"));
  const std::string secret = folder_ + "/secret";
  ASSERT_OK(WriteFileAtomically(secret, "secret"));
  std::filesystem::create_symlink(secret, temporary_);
  Add("one", state_);
  EXPECT_OK(Fetch());
  EXPECT_EQ(Fetched(), state_);
  std::filesystem::remove(path_);
  std::filesystem::create_hard_link(secret, temporary_);
  EXPECT_OK(Fetch());
  EXPECT_EQ(*ReadFile(secret), "secret");
}

TEST_F(StateFetchTest, ALinkInThePlaceOfTheFolderIsNotFollowed) {
  ASSERT_OK(MakeDirectories(folder_ + "/elsewhere"));
  std::filesystem::create_symlink(folder_ + "/elsewhere", folder_ + "/work");
  FakeSource* const one = Add("one", state_);
  EXPECT_THAT(Fetch(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr(folder_ + "/work")));
  EXPECT_TRUE(one->offsets.empty());
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/elsewhere"));
}

TEST_F(StateFetchTest, AnotherFileInThePlaceOfTheFetchedOneIsNotTaken) {
  FakeSource* const one = Add("one", state_);
  one->on_read = [&](const TransferLimits&) {
    std::filesystem::rename(temporary_, path_ + ".moved");
    ASSERT_OK(WriteFileAtomically(temporary_, "another"));
  };
  EXPECT_THAT(Fetch(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace comera::worker
