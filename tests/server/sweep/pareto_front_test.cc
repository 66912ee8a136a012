// Tests the front against brute force, and its bound on points.
#include "server/sweep/pareto_front.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace comera::server {
namespace {

v1::FrontPoint Point(double loss, int64_t size, int run = 0) {
  v1::FrontPoint point;
  point.mutable_point()->set_validation_loss(loss);
  point.mutable_point()->set_size_parameters(size);
  point.set_run(run);
  return point;
}

v1::ReferencePoint Reference(double loss, int64_t size) {
  v1::ReferencePoint reference;
  reference.set_validation_loss(loss);
  reference.set_size_parameters(size);
  return reference;
}

// By definition: all that no other one covers, of equals the first.
std::vector<v1::FrontPoint> SlowFront(const std::vector<v1::FrontPoint>& all) {
  std::vector<v1::FrontPoint> front;
  for (size_t i = 0; i < all.size(); ++i) {
    bool beaten = false;
    for (size_t j = 0; j < all.size(); ++j) {
      if (i == j || !Covers(all[j].point(), all[i].point())) continue;
      const bool equal = Covers(all[i].point(), all[j].point());
      beaten = beaten || !equal || j < i;
    }
    if (!beaten) front.push_back(all[i]);
  }
  std::sort(front.begin(), front.end(), [](const auto& a, const auto& b) {
    return a.point().size_parameters() < b.point().size_parameters();
  });
  return front;
}

// Unit cells of an integer grid that some point dominates.
double SlowHypervolume(const std::vector<v1::FrontPoint>& points, int loss,
                       int size) {
  double cells = 0;
  for (int x = 0; x < size; ++x) {
    for (int y = 0; y < loss; ++y) {
      cells += std::any_of(points.begin(), points.end(),
                           [&](const v1::FrontPoint& p) {
                             return p.point().size_parameters() <= x &&
                                    p.point().validation_loss() <= y;
                           })
                   ? 1
                   : 0;
    }
  }
  return cells;
}

TEST(ParetoFrontTest, Complaint20_FrontAndHypervolumeAreThoseOfBruteForce) {
  constexpr unsigned kSeed = 20;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 300; ++round) {
    // Few values, so that ties of every kind come up.
    const int range = 2 + static_cast<int>(random() % 12);
    std::vector<v1::FrontPoint> all;
    ParetoFront front(1000);
    const int count = static_cast<int>(random() % 30);
    for (int i = 0; i < count; ++i) {
      all.push_back(Point(random() % range, random() % range, i));
      front.Add(all.back());
    }
    const auto want = SlowFront(all);
    ASSERT_EQ(front.points().size(), want.size()) << "round " << round;
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(front.points()[i].run(), want[i].run()) << "round " << round;
    }
    // Some points lie beyond the reference.
    const int loss = 1 + static_cast<int>(random() % range);
    const int size = 1 + static_cast<int>(random() % range);
    EXPECT_DOUBLE_EQ(Hypervolume(front.points(), Reference(loss, size)),
                     SlowHypervolume(all, loss, size))
        << "round " << round;
    // Order and what is not on the front make no difference.
    std::shuffle(all.begin(), all.end(), random);
    EXPECT_DOUBLE_EQ(Hypervolume(all, Reference(loss, size)),
                     SlowHypervolume(all, loss, size));
  }
}

TEST(ParetoFrontTest, HypervolumeNeverFallsWithMorePoints) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> loss(0, 5);
  ParetoFront front(1000);
  double before = 0;
  for (int i = 0; i < 500; ++i) {
    const bool changed = front.Add(Point(loss(random), random() % 100000));
    const double now = Hypervolume(front.points(), Reference(5, 100000));
    EXPECT_GE(now, before);
    if (!changed) {
      EXPECT_EQ(now, before);
    }
    before = now;
  }
  EXPECT_GT(before, 0);
}

TEST(ParetoFrontTest, WhatIsNoModelIsNeverOnIt) {
  ParetoFront front(10);
  EXPECT_FALSE(front.Add(Point(std::nan(""), 5)));
  EXPECT_FALSE(front.Add(Point(std::numeric_limits<double>::infinity(), 5)));
  EXPECT_FALSE(front.Add(Point(-1, 5)));
  EXPECT_FALSE(front.Add(Point(1, -5)));
  EXPECT_TRUE(front.points().empty());
}

TEST(ParetoFrontTest, AFullFrontLosesWhatItMissesLeastAndKeepsItsEnds) {
  ParetoFront front(4);
  for (const auto& [loss, size] : std::vector<std::pair<double, int64_t>>{
           {5, 10}, {1, 100}, {3, 40}, {2.9, 50}}) {
    EXPECT_TRUE(front.Add(Point(loss, size)));
  }
  EXPECT_TRUE(front.Add(Point(2, 70)));
  ASSERT_EQ(front.points().size(), 4u);
  EXPECT_EQ(front.points().front().point().size_parameters(), 10);
  EXPECT_EQ(front.points().back().point().size_parameters(), 100);
  for (const v1::FrontPoint& point : front.points()) {
    EXPECT_NE(point.point().size_parameters(), 50);
  }
}

TEST(ParetoFrontTest, BeatsNeedsTheMarginInBoth) {
  const auto beats = [](const v1::FrontPoint& a, const v1::FrontPoint& b) {
    return Beats(a.point(), b.point(), 0.1);
  };
  EXPECT_TRUE(beats(Point(0.9, 900), Point(1, 1000)));
  EXPECT_FALSE(beats(Point(0.91, 100), Point(1, 1000)));
  EXPECT_FALSE(beats(Point(0.1, 901), Point(1, 1000)));
}

TEST(ParetoFrontTest, WithoutAReferenceThereIsNoHypervolume) {
  ParetoFront front(4);
  front.Add(Point(1, 10));
  const v1::SweepFront none = MakeSweepFront(front, {});
  EXPECT_FALSE(none.has_reference());
  EXPECT_EQ(none.hypervolume(), 0);
  const v1::SweepFront some = MakeSweepFront(front, Reference(2, 20));
  EXPECT_EQ(some.hypervolume(), 10);
  EXPECT_EQ(some.hypervolume_ratio(), 0.25);
}

}  // namespace
}  // namespace comera::server
