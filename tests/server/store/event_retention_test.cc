// Tests which samples thinning deletes.
#include "server/store/event_retention.h"

#include <algorithm>
#include <ctime>
#include <numeric>

#include "common/status_matchers.h"
#include "server/store/sqlite_job_store.h"
#include "tests/server/temp_dir.h"

namespace comera::server {
namespace {

std::vector<int64_t> Without(std::vector<int64_t> all,
                             const std::vector<int64_t>& doomed) {
  std::vector<int64_t> kept;
  std::set_difference(all.begin(), all.end(), doomed.begin(), doomed.end(),
                      std::back_inserter(kept));
  return kept;
}

std::vector<int64_t> Numbers(int64_t first, int64_t last) {
  std::vector<int64_t> numbers(last - first + 1);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

int64_t WidestGap(const std::vector<int64_t>& kept) {
  int64_t widest = 0;
  for (size_t i = 1; i < kept.size(); ++i) {
    widest = std::max(widest, kept[i] - kept[i - 1]);
  }
  return widest;
}

TEST(ThinSeriesTest, KeepsFirstAndLastAndAtMostSoMany) {
  for (int64_t n : {0, 1, 2, 3, 4, 7, 100, 1001}) {
    for (int keep : {3, 10, 99}) {
      SCOPED_TRACE(testing::Message() << n << " keep " << keep);
      const std::vector<int64_t> all = Numbers(5, 4 + n);
      const auto kept = Without(all, ThinSeries(all, keep));
      EXPECT_LE(kept.size(), static_cast<size_t>(keep));
      EXPECT_GE(kept.size(), std::min<size_t>(n, keep / 2));
      if (n == 0) continue;
      EXPECT_EQ(kept.front(), 5);
      EXPECT_EQ(kept.back(), 4 + n);
    }
  }
}

TEST(ThinSeriesTest, ThinningOftenOrOnceLeavesTheSame) {
  const int64_t total = 1000000;
  std::vector<int64_t> kept;
  for (int64_t i = 1; i <= total; ++i) {
    kept.push_back(i);
    if (kept.size() > 100) kept = Without(kept, ThinSeries(kept, 50));
  }
  // The newest samples are still there: coarser than that, all are alike.
  const std::vector<int64_t> all = Numbers(1, total);
  EXPECT_EQ(Without(kept, ThinSeries(kept, 20)),
            Without(all, ThinSeries(all, 20)));
}

// One million samples of one series: rows stay bounded, both ends are exact,
// the middle is as dense as the rest, and reading all of it is quick.
TEST(MetricSeriesTest, Complaint18_MillionSamplesStayBoundedFairAndQuick) {
  const TempDir folder;
  SqliteJobStore::Options options;
  ASSERT_OK_AND_ASSIGN(
      auto store,
      SqliteJobStore::Open(folder.path() + "/jobs.sqlite", options));
  const int64_t total = 1000000;
  StoreBatch batch;
  for (int64_t i = 1; i <= total; ++i) {
    v1::JobEvent& event = batch.events.emplace_back();
    event.set_job("jobs/long");
    event.set_sequence(i);
    event.mutable_metrics()->set_step(i);
    event.mutable_metrics()->set_loss(1.0 / i);
    if (i % 10000 != 0) continue;
    ASSERT_OK(store->Commit(batch));
    batch.events.clear();
  }
  // The processor's time, which does not grow where others use it too.
  const std::clock_t begin = std::clock();
  ASSERT_OK_AND_ASSIGN(auto events,
                       store->ReadEvents("jobs/long", 0, total, 1 << 20));
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 1);
  EXPECT_LE(events.size(), 2000u);
  EXPECT_GE(events.size(), 500u);
  std::vector<int64_t> steps;
  for (const v1::JobEvent& event : events) {
    steps.push_back(event.metrics().step());
  }
  EXPECT_EQ(steps.front(), 1);
  EXPECT_EQ(steps.back(), total);
  EXPECT_EQ(events.back().metrics().loss(), 1.0 / total);
  EXPECT_LE(WidestGap(steps), 2 * total / 500);
}

}  // namespace
}  // namespace comera::server
