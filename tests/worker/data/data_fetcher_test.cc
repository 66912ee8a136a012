// Checks that data are fetched before members start, with progress, retries and
// cancelling.

#include "worker/data/data_fetcher.h"

#include <stdlib.h>

#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "comera/v1/dataset_service.pb.h"
#include "common/files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/data/fake_blobs.h"

namespace comera::worker {
namespace {

using ::testing::HasSubstr;
using Code = absl::StatusCode;

class DataFetcherTest : public ::testing::Test, public DataFetcher::Observer {
 protected:
  DataFetcherTest() {
    folder_ = ::testing::TempDir() + "/fetch_XXXXXX";
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
    DatasetCache::Options options;
    options.min_free_bytes = 0;
    cache_ = *DatasetCache::Open(folder_, options);
    options_.min_backoff = options_.max_backoff = absl::Milliseconds(1);
    options_.report_interval = absl::Milliseconds(1);
    Start();
  }
  ~DataFetcherTest() override {
    fetcher_.reset();
    cache_.reset();
    std::filesystem::remove_all(folder_);
  }

  void Start() {
    fetcher_.reset();
    fetcher_ =
        std::make_unique<DataFetcher>(options_, cache_.get(), &source_, this);
  }

  void OnFetching(DataFetcher::Id id, const v1::TrainerEvent& event) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    heartbeats_.push_back(event.heartbeat());
    changed_.notify_all();
  }
  void OnFetched(DataFetcher::Id id,
                 absl::StatusOr<v1::JobSpec> spec) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    fetched_.emplace(id, std::move(spec));
    changed_.notify_all();
  }
  absl::StatusOr<v1::JobSpec> Wait(DataFetcher::Id id) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return fetched_.count(id) > 0; });
    return fetched_.at(id);
  }

  // An assignment of a member that reads the dataset's files.
  v1::MemberAssignment Assignment(
      const std::map<std::string, std::string>& files,
      const std::string& train) {
    v1::DatasetManifest manifest;
    for (const auto& [path, data] : files) {
      v1::DatasetFile* file = manifest.add_files();
      file->set_path(path);
      file->set_size_bytes(static_cast<int64_t>(data.size()));
      file->set_sha256(source_.Add(data));
    }
    v1::MemberAssignment assignment;
    assignment.set_job("jobs/a");
    v1::DatasetPin* pin = assignment.add_datasets();
    pin->set_reference("datasets/d");
    pin->set_version("datasets/d@1");
    pin->set_digest(source_.Add(manifest.SerializeAsString()));
    assignment.mutable_spec()->mutable_data()->mutable_jsonl()->set_train(
        train);
    assignment.mutable_spec()->mutable_data()->mutable_jsonl()->set_validation(
        "/local/file");
    return assignment;
  }

  std::string folder_;
  FakeBlobs source_;
  std::unique_ptr<DatasetCache> cache_;
  DataFetcher::Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<v1::Heartbeat> heartbeats_;
  std::map<DataFetcher::Id, absl::StatusOr<v1::JobSpec>> fetched_;
  std::unique_ptr<DataFetcher> fetcher_;
};

TEST_F(DataFetcherTest, PathsBecomeLocal) {
  fetcher_->Start(1, Assignment({{"a/t.jsonl", "{}"}, {"b", "other"}},
                                "datasets/d/a/t.jsonl"));
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec, Wait(1));
  EXPECT_EQ(*ReadFile(spec.data().jsonl().train()), "{}");
  EXPECT_THAT(spec.data().jsonl().train(), HasSubstr("/a/t.jsonl"));
  EXPECT_EQ(spec.data().jsonl().validation(), "/local/file");
  // Fetches only what is needed: the list of files and one file.
  EXPECT_EQ(source_.offsets().size(), 2);
}

TEST_F(DataFetcherTest, TellsHowFarItIsAlsoWhileNothingComes) {
  source_.Close();
  fetcher_->Start(1, Assignment({{"t", "data"}}, "datasets/d/t"));
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return heartbeats_.size() >= 3; });
  EXPECT_EQ(heartbeats_.back().stage(), v1::PREPARING);
  EXPECT_THAT(heartbeats_.back().activity(), HasSubstr("fetching data"));
  lock.unlock();
  source_.Open();
  EXPECT_OK(Wait(1));
}

TEST_F(DataFetcherTest, AFolderBringsAllBelowIt) {
  v1::MemberAssignment assignment =
      Assignment({{"src/a.h", "a"}, {"src/x/b.h", "b"}, {"srcs", "c"}}, "");
  v1::CodeDirectory& code =
      *assignment.mutable_spec()->mutable_data()->mutable_code_directory();
  code.add_roots("datasets/d/src");
  fetcher_->Start(1, assignment);
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec, Wait(1));
  const std::string& root = spec.data().code_directory().roots(0);
  EXPECT_EQ(*ReadFile(root + "/a.h"), "a");
  EXPECT_EQ(*ReadFile(root + "/x/b.h"), "b");
  EXPECT_FALSE(std::filesystem::exists(root + "s"));
}

TEST_F(DataFetcherTest, GoesOnAfterBreaks) {
  source_.Break({5, 0, 3, 2});
  fetcher_->Start(1, Assignment({{"t", "0123456789"}}, "datasets/d/t"));
  ASSERT_OK_AND_ASSIGN(const v1::JobSpec spec, Wait(1));
  EXPECT_EQ(*ReadFile(spec.data().jsonl().train()), "0123456789");
}

TEST_F(DataFetcherTest, TellsWhatIsWrong) {
  v1::MemberAssignment missing = Assignment({{"t", "data"}}, "datasets/d/t");
  source_.Remove(Sha256Hex("data"));
  fetcher_->Start(1, missing);
  EXPECT_THAT(Wait(1), StatusIs(Code::kNotFound, HasSubstr("datasets/d@1/t")));
  fetcher_->Start(2, Assignment({{"t", "data"}}, "datasets/d/u"));
  EXPECT_THAT(Wait(2), StatusIs(Code::kInvalidArgument,
                                HasSubstr("datasets/d@1 has no u")));
  fetcher_->Start(3, Assignment({{"t", "data"}}, "datasets/e/t"));
  EXPECT_THAT(Wait(3),
              StatusIs(Code::kInvalidArgument, HasSubstr("means no dataset")));
}

TEST_F(DataFetcherTest, HostileListsOfFilesStayInTheView) {
  for (const char* path : {"../../../../escaped", "/escaped", "a/../../b"}) {
    static int id = 0;
    fetcher_->Start(++id, Assignment({{path, "data"}}, "datasets/d"));
    EXPECT_THAT(Wait(id), StatusIs(Code::kDataLoss, HasSubstr("damaged")));
  }
  v1::MemberAssignment garbage = Assignment({{"t", "data"}}, "datasets/d/t");
  garbage.mutable_datasets(0)->set_digest(source_.Add("\xff\xff\xff"));
  fetcher_->Start(10, garbage);
  EXPECT_THAT(Wait(10), StatusIs(Code::kDataLoss));
  garbage.mutable_datasets(0)->set_digest("../../x");
  fetcher_->Start(11, garbage);
  EXPECT_THAT(Wait(11), StatusIs(Code::kInvalidArgument));
}

TEST_F(DataFetcherTest, PatienceEnds) {
  options_.patience = absl::ZeroDuration();
  Start();
  source_.Break({0});
  fetcher_->Start(1, Assignment({{"t", "data"}}, "datasets/d/t"));
  EXPECT_THAT(Wait(1), StatusIs(Code::kUnavailable, HasSubstr("line broke")));
}

TEST_F(DataFetcherTest, CanBeCancelledAndDestroyed) {
  source_.Close();
  fetcher_->Start(1, Assignment({{"t", "data"}}, "datasets/d/t"));
  source_.WaitForFetches(1);
  fetcher_->Cancel(1);
  EXPECT_THAT(Wait(1), StatusIs(Code::kCancelled));
  fetcher_->Release(1);
  fetcher_->Start(2, Assignment({{"t", "data"}}, "datasets/d/t"));
  source_.WaitForFetches(2);
  fetcher_.reset();
  EXPECT_EQ(fetched_.count(2), 0);
}

}  // namespace
}  // namespace comera::worker
