// What ReadSeries tells of a job's events, and how it is thinned.
#include "server/view/series_table.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <iostream>
#include <limits>
#include <map>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/view/series_points.h"

namespace comera::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::JobEvent Metrics(int64_t sequence, int64_t step, double loss) {
  v1::JobEvent event;
  event.set_sequence(sequence);
  event.mutable_time()->set_seconds(1000 + sequence);
  event.mutable_time()->set_nanos(500000000);
  event.mutable_metrics()->set_step(step);
  event.mutable_metrics()->set_loss(loss);
  return event;
}

v1::JobEvent Snapshot(int64_t sequence, int64_t step, int layers = 1) {
  v1::JobEvent event;
  event.set_sequence(sequence);
  event.mutable_rank_snapshot()->set_step(step);
  for (int i = 0; i < layers; ++i) {
    v1::LayerRanks* ranks = event.mutable_rank_snapshot()->add_layers();
    ranks->set_layer("layer" + std::to_string(i));
    ranks->add_current(30);
  }
  return event;
}

v1::JobEvent Point(int64_t sequence, int64_t step) {
  v1::JobEvent event;
  event.set_sequence(sequence);
  event.mutable_pareto_point()->set_step(step);
  return event;
}

v1::JobEvent Resumed(int64_t sequence, int64_t step) {
  v1::JobEvent event;
  event.set_sequence(sequence);
  event.mutable_run_info()->set_resumed_from_step(step);
  return event;
}

v1::ReadSeriesRequest Request(int32_t max_points,
                              const std::vector<std::string>& metrics = {},
                              int64_t after = 0) {
  v1::ReadSeriesRequest request;
  request.set_name("jobs/x");
  request.set_max_points(max_points);
  request.set_after_sequence(after);
  for (const std::string& metric : metrics) request.add_metrics(metric);
  EXPECT_OK(CheckSeriesRequest(request));
  return request;
}

std::vector<size_t> Pick(const std::vector<double>& values, size_t max_points,
                         size_t begin = 0) {
  std::vector<int64_t> sequences(values.size());
  for (size_t i = 0; i < values.size(); ++i) sequences[i] = 10 * i + 3;
  SeriesColumn column;
  column.sequences = &sequences;
  column.values = &values;
  return PickPoints(column, begin, max_points);
}

TEST(SeriesPoints, EndsAndExtremesStay) {
  EXPECT_THAT(Pick({}, 5), IsEmpty());
  EXPECT_THAT(Pick({1, 2, 3}, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(Pick({1, 2, 3}, 1), ElementsAre(2));
  EXPECT_THAT(Pick({1, 2, 3}, 2), ElementsAre(0, 2));
  EXPECT_THAT(Pick({1, 2, 3, 4}, 3), ElementsAre(0, 3));
  // One stretch between the ends, then two.
  EXPECT_THAT(Pick({5, 5, 9, 5, 1, 5, 5}, 4), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(Pick({5, 5, 9, 5, 5, 1, 5, 5}, 6), ElementsAre(0, 1, 2, 4, 5, 7));
  // A flat stretch is one point.
  EXPECT_THAT(Pick({5, 5, 5, 5, 5, 5, 5}, 4), ElementsAre(0, 1, 6));
  // From somewhere on.
  EXPECT_THAT(Pick({0, 0, 5, 5, 9, 1, 5}, 4, 2), ElementsAre(2, 4, 5, 6));
  EXPECT_THAT(Pick({1, 2}, 4, 2), IsEmpty());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(Pick({1, nan, 2, nan, 7, 1}, 4), ElementsAre(0, 2, 4, 5));
  EXPECT_THAT(Pick({nan, nan, nan, nan, nan}, 4), ElementsAre(0, 3, 4));
}

TEST(SeriesPoints, NeverMoreThanAskedFor) {
  for (size_t count : {2, 3, 10, 97, 1000}) {
    std::vector<double> values(count);
    std::vector<int64_t> sequences(count);
    int64_t sequence = 0;
    for (size_t i = 0; i < count; ++i) {
      values[i] = std::sin(static_cast<double>(i * i));
      // Uneven: the store thins what is old.
      sequences[i] = sequence += i < count / 2 ? 97 : 1;
    }
    SeriesColumn column;
    column.sequences = &sequences;
    column.values = &values;
    for (size_t most = 1; most < 120; ++most) {
      const auto picked = PickPoints(column, 0, most);
      ASSERT_LE(picked.size(), most) << count;
      EXPECT_EQ(picked.back(), count - 1);
      EXPECT_TRUE(most == 1 || picked.front() == 0);
      EXPECT_TRUE(std::is_sorted(picked.begin(), picked.end()));
      EXPECT_EQ(std::adjacent_find(picked.begin(), picked.end()), picked.end());
      const auto evenly = PickEvenly(sequences, 0, most);
      ASSERT_LE(evenly.size(), most) << count;
      EXPECT_EQ(evenly.back(), count - 1);
    }
  }
}

TEST(SeriesTable, FieldsAreColumns) {
  SeriesTable table;
  v1::JobEvent first = Metrics(3, 10, 5.5);
  first.mutable_metrics()->set_stage(v1::EARLY);
  table.Add(first);
  v1::JobEvent second = Metrics(7, 20, 0);
  second.mutable_metrics()->set_validation_loss(4.5);
  second.mutable_metrics()->set_stepped_on_size(true);
  second.mutable_metrics()->mutable_eta()->set_seconds(2);
  second.mutable_metrics()->mutable_eta()->set_nanos(500000000);
  second.mutable_metrics()->set_target_loss(4.25);
  second.mutable_metrics()->set_stage(v1::LATE);
  table.Add(second);
  EXPECT_EQ(table.rows(), 2u);

  std::map<std::string, v1::MetricSeries> all;
  const v1::JobSeries read = table.Read(Request(100));
  for (const v1::MetricSeries& one : read.series()) {
    all[one.metric()] = one;
  }
  // Neither what was never set, nor the step, which is the other axis.
  EXPECT_THAT(all, SizeIs(6));
  EXPECT_THAT(all["loss"].values(), ElementsAre(5.5, 0));
  EXPECT_THAT(all["loss"].steps(), ElementsAre(10, 20));
  EXPECT_THAT(all["loss"].wall_times(), ElementsAre(1003.5, 1007.5));
  EXPECT_THAT(all["validation_loss"].values(), ElementsAre(4.5));
  EXPECT_THAT(all["validation_loss"].steps(), ElementsAre(20));
  EXPECT_THAT(all["stepped_on_size"].values(), ElementsAre(1));
  EXPECT_THAT(all["eta"].values(), ElementsAre(2.5));
  // Before there was a target it was not 0.
  EXPECT_THAT(all["target_loss"].steps(), ElementsAre(20));
  EXPECT_THAT(all["stage"].values(), ElementsAre(v1::EARLY, v1::LATE));

  // In the order asked for, each once, also those that have nothing.
  const v1::JobSeries some =
      table.Read(Request(100, {"validation_auc", "loss", "validation_auc"}, 3));
  ASSERT_THAT(some.series(), SizeIs(2));
  EXPECT_EQ(some.series(0).metric(), "validation_auc");
  EXPECT_THAT(some.series(0).steps(), IsEmpty());
  EXPECT_THAT(some.series(1).steps(), ElementsAre(20));
  EXPECT_THAT(table.Read(Request(100, {"eta"}, 7)).series(0).steps(),
              IsEmpty());
}

TEST(SeriesTable, LaterAttemptsReplaceWhatTheyDoAgain) {
  SeriesTable table;
  table.Add(Resumed(1, 0));
  table.Add(Snapshot(2, 0));
  for (int i = 1; i <= 5; ++i) {
    v1::JobEvent event = Metrics(10 + i, 10 * i, i);
    if (i % 2 == 0) event.mutable_metrics()->set_validation_loss(10 * i);
    table.Add(event);
  }
  table.Add(Snapshot(20, 50));
  table.Add(Point(21, 20));
  table.Add(Point(22, 50));
  table.Add(Resumed(23, 30));
  v1::JobEvent again = Metrics(24, 40, 40.5);
  again.mutable_metrics()->set_validation_loss(41);
  table.Add(again);
  const v1::JobSeries series =
      table.Read(Request(100, {"loss", "validation_loss"}));
  EXPECT_THAT(series.series(0).steps(), ElementsAre(10, 20, 30, 40));
  EXPECT_THAT(series.series(0).values(), ElementsAre(1, 2, 3, 40.5));
  EXPECT_THAT(series.series(1).steps(), ElementsAre(20, 40));
  EXPECT_THAT(series.series(1).values(), ElementsAre(20, 41));
  ASSERT_THAT(series.rank_snapshots(), SizeIs(1));
  ASSERT_THAT(series.pareto_points(), SizeIs(1));
  EXPECT_EQ(series.pareto_points(0).step(), 20);
  EXPECT_EQ(series.run_info().resumed_from_step(), 30);
  // The facts are there whatever was asked for.
  EXPECT_TRUE(table.Read(Request(1, {"loss"}, 1000)).has_run_info());
}

TEST(SeriesTable, BadRequestsNameTheField) {
  v1::ReadSeriesRequest request;
  const auto expect = [&request](const std::string& text) {
    EXPECT_THAT(CheckSeriesRequest(request),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  };
  expect("max_points: ");
  request.set_max_points(10001);
  expect("max_points: ");
  request.set_max_points(10000);
  EXPECT_OK(CheckSeriesRequest(request));
  request.set_after_sequence(-1);
  expect("after_sequence: ");
  request.set_after_sequence(0);
  request.add_metrics("loss");
  request.add_metrics("step");
  expect("metrics[1]: ");
  request.set_metrics(1, "");
  expect("metrics[1]: ");
  request.clear_metrics();
  for (int i = 0; i < 101; ++i) request.add_metrics("loss");
  expect("metrics: ");
}

TEST(SeriesTable, AnswersStaySmall) {
  SeriesTable table;
  for (int i = 1; i <= 12000; ++i) {
    v1::JobEvent event = Metrics(3 * i, 100000000 + i, i);
    v1::StepMetrics& metrics = *event.mutable_metrics();
    metrics.set_total_steps(i);
    metrics.set_stage(v1::EARLY);
    metrics.set_validation_loss(i);
    metrics.set_smoothed_loss(i);
    metrics.set_size_parameters(i);
    metrics.set_size_bytes(i);
    metrics.set_samples_per_second(i);
    metrics.set_synchronized_bytes(i);
    metrics.set_peak_memory_bytes(i);
    metrics.set_gradient_norm(i);
    metrics.set_target_loss(i);
    metrics.mutable_eta()->set_seconds(i);
    table.Add(event);
    table.Add(Snapshot(3 * i + 1, i, 80));
    table.Add(Point(3 * i + 2, i));
  }
  const v1::JobSeries series = table.Read(Request(10000));
  EXPECT_LT(series.ByteSizeLong(), 4u << 20);
  EXPECT_GT(series.ByteSizeLong(), 1u << 20);
  EXPECT_EQ(series.rank_snapshots().rbegin()->step(), 12000);
  EXPECT_EQ(series.series(0).steps(0), 100000001);
}

// Dashboards ask for such a job, and the coordinator answers many of them.
TEST(SeriesTable, AMillionPointsTakeLittleTime) {
  SeriesTable table;
  for (int i = 1; i <= 1000000; ++i) {
    table.Add(Metrics(i, i, std::sin(0.001 * i)));
  }
  // The processor's time, which does not grow where others use it too.
  const std::clock_t begin = std::clock();
  const v1::JobSeries series = table.Read(Request(2000));
  const double seconds =
      static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  ASSERT_THAT(series.series(), SizeIs(1));
  EXPECT_GT(series.series(0).steps_size(), 1500);
  EXPECT_LE(series.series(0).steps_size(), 2000);
  EXPECT_THAT(series.series(0).steps(), Contains(1000000));
  RecordProperty("seconds", std::to_string(seconds));
  std::cout << "a million points, one metric: " << 1e3 * seconds << " ms\n";
  EXPECT_LT(seconds, 0.5);
}

}  // namespace
}  // namespace comera::server
