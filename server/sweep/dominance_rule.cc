// Decides which runs of a sweep others have left behind for good.
#include "server/sweep/dominance_rule.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "server/sweep/pareto_front.h"

namespace comera::server {
namespace {

const v1::FrontPoint* FindBetter(const v1::ParetoPoint& point,
                                 const std::vector<v1::FrontPoint>& others,
                                 double margin) {
  for (const v1::FrontPoint& other : others) {
    if (Beats(other.point(), point, margin)) return &other;
  }
  return nullptr;
}

// The best that can still come.
v1::ParetoPoint Hope(const DominanceSubject& subject) {
  double steepest = 0;  // nats per step
  double best = subject.validations.front().loss();
  int64_t size = subject.final_size;
  for (size_t i = 0; i < subject.validations.size(); ++i) {
    const ValidationSample& now = subject.validations[i];
    best = std::min(best, now.loss());
    size = std::min(size, now.size_parameters());
    if (i == 0) continue;
    const ValidationSample& before = subject.validations[i - 1];
    if (now.step() <= before.step()) continue;
    steepest =
        std::max(steepest, (before.loss() - now.loss()) /
                               static_cast<double>(now.step() - before.step()));
  }
  const int64_t left = std::max<int64_t>(0, subject.total_steps - subject.step);
  v1::ParetoPoint hope;
  hope.set_validation_loss(
      std::max(0.0, best - steepest * static_cast<double>(left)));
  hope.set_size_parameters(size);
  return hope;
}

}  // namespace

bool IsHopeless(const DominanceSubject& subject,
                const std::vector<v1::FrontPoint>& others,
                const DominanceOptions& options, std::string* why) {
  if (subject.final_size <= 0 || subject.total_steps <= 0 ||
      subject.validations.empty() ||
      static_cast<int>(subject.validations.size()) < options.min_validations ||
      static_cast<double>(subject.step) <
          options.min_progress * static_cast<double>(subject.total_steps) ||
      subject.validations.back().size_parameters() > subject.final_size) {
    return false;
  }
  for (const v1::ParetoPoint& point : subject.points) {
    if (FindBetter(point, others, options.margin) == nullptr) return false;
  }
  const v1::ParetoPoint hope = Hope(subject);
  const v1::FrontPoint* better = FindBetter(hope, others, options.margin);
  if (better == nullptr) return false;
  *why = absl::StrFormat(
      "dominated: can reach loss %.4g at %d parameters at best, run %d has "
      "%.4g at %d",
      hope.validation_loss(), hope.size_parameters(), better->run(),
      better->point().validation_loss(), better->point().size_parameters());
  return true;
}

}  // namespace comera::server
