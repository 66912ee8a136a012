// Sorts the matrices of an orthogonal step by size, and places them.
#include "kernels/orthogonal_plan.h"

namespace comera::kernels {
namespace {

// Multiply-adds of a product from which a matrix occupies the whole device.
constexpr int64_t kLargeWork = int64_t{1} << 24;
// Places begin at multiples of so many floats.
constexpr int64_t kAlignment = 16;

int64_t Work(const OrthogonalTask& task) { return task.size() * task.wide; }

}  // namespace

OrthogonalPlan PlanOrthogonalStep(absl::Span<const OrthogonalSegment> segments,
                                  int64_t lanes) {
  OrthogonalPlan plan;
  for (const OrthogonalSegment& segment : segments) {
    OrthogonalTask task;
    task.segment = segment;
    task.tall = std::max(segment.rows, segment.cols);
    task.wide = std::min(segment.rows, segment.cols);
    task.stride = (task.wide + lanes - 1) / lanes * lanes;
    (Work(task) >= kLargeWork ? plan.large : plan.small).push_back(task);
  }
  std::stable_sort(plan.small.begin(), plan.small.end(),
                   [](const OrthogonalTask& a, const OrthogonalTask& b) {
                     return Work(a) > Work(b);
                   });
  for (OrthogonalTask& task : plan.small) {
    task.offset = plan.floats;
    plan.floats +=
        (task.floats() + kAlignment - 1) / kAlignment * kAlignment;
  }
  for (const OrthogonalTask& task : plan.large) {
    plan.floats = std::max(plan.floats, task.floats());
  }
  return plan;
}

}  // namespace comera::kernels
