// The index of views gives the levels that comparing all pairs gives.
#include "kernels/task_levels.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace comera::kernels {
namespace {

struct Task {
  std::vector<ConstMatrix> reads, writes;
};

bool AnyShared(const std::vector<ConstMatrix>& a,
               const std::vector<ConstMatrix>& b) {
  for (const ConstMatrix& x : a) {
    for (const ConstMatrix& y : b) {
      if (SharesElements(x, y)) return true;
    }
  }
  return false;
}

// Compares every task with all before it.
std::vector<int> PlainLevels(const std::vector<Task>& tasks) {
  std::vector<int> levels;
  for (size_t i = 0; i < tasks.size(); ++i) {
    int level = 0;
    for (size_t j = 0; j < i; ++j) {
      if (AnyShared(tasks[i].writes, tasks[j].writes) ||
          AnyShared(tasks[i].writes, tasks[j].reads) ||
          AnyShared(tasks[i].reads, tasks[j].writes)) {
        level = std::max(level, levels[j] + 1);
      }
    }
    levels.push_back(level);
  }
  return levels;
}

std::vector<int> Levels(const std::vector<Task>& tasks, TaskLevels* levels) {
  std::vector<int> result;
  for (const Task& task : tasks) {
    result.push_back(levels->Add(task.reads, task.writes));
  }
  return result;
}

// Views of memory that is never touched, short and long ones.
class Views {
 public:
  Views(int64_t floats, unsigned seed) : memory_(floats), random_(seed) {}

  ConstMatrix Draw() {
    switch (Below(4)) {
      case 0:  // a vector, at times empty or long
        return Vector(Below(4) == 0 ? Below(memory_.size() / 8) : Below(30));
      case 1: {  // columns of a matrix that all share
        const int64_t rows = Below(40), cols = Below(16);
        return {At(Below(50) * kStride + Below(kStride - cols)), rows, cols,
                kStride};
      }
      default: {
        const int64_t cols = Below(20), rows = Below(20);
        const int64_t stride = cols + Below(3);
        return {At(Below(memory_.size() - 20 * 22)), rows, cols, stride};
      }
    }
  }
  Task DrawTask() {
    Task task;
    for (int64_t i = Below(4); i > 0; --i) task.reads.push_back(Draw());
    for (int64_t i = Below(2) + 1; i > 0; --i) task.writes.push_back(Draw());
    return task;
  }
  int64_t Below(int64_t end) { return static_cast<int64_t>(random_() % end); }
  const float* At(int64_t place) const { return memory_.data() + place; }

 private:
  static constexpr int64_t kStride = 64;

  ConstMatrix Vector(int64_t size) {
    return {At(Below(memory_.size() - size)), 1, size};
  }

  const std::vector<float> memory_;
  std::mt19937 random_;
};

TEST(TaskLevelsTest, AreThoseOfAllPairs) {
  // In little memory nearly all tasks wait for others, in much of it few do.
  TaskLevels levels;
  for (const int64_t floats : {10'000, 300'000, 10'000'000}) {
    Views views(floats, 7);
    std::vector<Task> tasks(3000);
    for (Task& task : tasks) task = views.DrawTask();
    EXPECT_EQ(Levels(tasks, &levels), PlainLevels(tasks)) << floats;
    levels.Clear();
  }
}

TEST(TaskLevelsTest, Bfloat16TakesHalfTheMemory) {
  alignas(4) uint16_t numbers[40] = {};
  const auto* const floats = reinterpret_cast<const float*>(numbers);
  // Columns of a wider matrix, apart from those beside them.
  const ConstMatrix left = MemoryOf(ConstBf16Matrix(numbers, 5, 4, 8));
  const ConstMatrix right = MemoryOf(ConstBf16Matrix(numbers + 4, 5, 4, 8));
  EXPECT_EQ(left.data, floats);
  EXPECT_EQ(left.rows, 5);
  EXPECT_EQ(left.cols, 2);
  EXPECT_EQ(left.stride, 4);
  EXPECT_FALSE(SharesElements(left, right));
  // Odd rows: everything between the first element and the last.
  const ConstMatrix odd = MemoryOf(ConstBf16Matrix(numbers, 3, 4, 9));
  EXPECT_EQ(odd.rows, 1);
  EXPECT_EQ(odd.cols, 11);
  EXPECT_TRUE(SharesElements(odd, ConstMatrix(floats + 10, 1, 1)));
  EXPECT_FALSE(SharesElements(odd, ConstMatrix(floats + 11, 1, 1)));
  // The second half of a float.
  const ConstMatrix behind = MemoryOf(ConstBf16Matrix(numbers + 1, 1, 2, 2));
  EXPECT_EQ(behind.data, floats);
  EXPECT_EQ(behind.cols, 2);
  EXPECT_EQ(MemoryOf(ConstBf16Matrix(numbers, 0, 4, 8)).rows, 0);
}

// The cores of many layers: chains of products, of which each layer has its
// own.
TEST(TaskLevelsTest, ThousandsOfTasksTakeMilliseconds) {
  constexpr int64_t kLayers = 200, kTasks = 20, kFloats = 20'000;
  const std::vector<float> memory(kLayers * kTasks * kFloats);
  std::vector<Task> tasks;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    const float* const at = memory.data() + layer * kTasks * kFloats;
    for (int64_t i = 1; i < kTasks; ++i) {
      const float* const before =
          at + std::max<int64_t>(i - 1 - i % 2, 0) * kFloats;
      tasks.push_back({{{before, 128, 128}, {at + i / 3 * kFloats, 8, 300}},
                       {{at + i * kFloats, 100, 200}}});
    }
  }
  const auto seconds = [](const auto& f) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double> taken =
        std::chrono::steady_clock::now() - start;
    return taken.count();
  };
  TaskLevels levels;
  std::vector<int> fast, plain;
  const double fast_seconds = seconds([&] { fast = Levels(tasks, &levels); });
  const double plain_seconds = seconds([&] { plain = PlainLevels(tasks); });
  EXPECT_EQ(fast, plain);
  std::cout << tasks.size() << " tasks: " << fast_seconds << " s, by all pairs "
            << plain_seconds << " s\n";
  EXPECT_LT(fast_seconds, plain_seconds / 3);
}

}  // namespace
}  // namespace comera::kernels
