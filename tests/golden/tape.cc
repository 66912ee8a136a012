// Records scalar operations and runs through them backwards.

#include "tests/golden/tape.h"

#include <cstddef>

namespace comera::golden {

Tape::Id Tape::Finish(double value) {
  values_.push_back(value);
  begins_.push_back(static_cast<int64_t>(slopes_.size()));
  return static_cast<Id>(values_.size() - 1);
}

Tape::Id Tape::Record(double value, std::initializer_list<Slope> slopes) {
  slopes_.insert(slopes_.end(), slopes);
  return Finish(value);
}

Tape::Id Tape::Add(Id a, Id b) {
  return Record(value(a) + value(b), {{a, 1}, {b, 1}});
}

Tape::Id Tape::Multiply(Id a, Id b) {
  return Record(value(a) * value(b), {{a, value(b)}, {b, value(a)}});
}

Tape::Id Tape::Linear(Id a, double scale, double shift) {
  return Record(scale * value(a) + shift, {{a, scale}});
}

Tape::Id Tape::Sum(const Row& terms) {
  double sum = 0;
  for (Id term : terms) {
    sum += value(term);
    slopes_.push_back({term, 1});
  }
  return Finish(sum);
}

Tape::Id Tape::Dot(const Row& a, const Row& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    sum += value(a[i]) * value(b[i]);
    slopes_.push_back({a[i], value(b[i])});
    slopes_.push_back({b[i], value(a[i])});
  }
  return Finish(sum);
}

std::vector<double> Tape::Gradients(Id of) const {
  std::vector<double> gradients(values_.size());
  gradients[of] = 1;
  for (Id id = of; id >= 0; --id) {
    for (int64_t i = begins_[id]; i < begins_[id + 1]; ++i) {
      gradients[slopes_[i].argument] += gradients[id] * slopes_[i].slope;
    }
  }
  return gradients;
}

}  // namespace comera::golden
