#ifndef COMERA_TESTS_GOLDEN_TAPE_H_
#define COMERA_TESTS_GOLDEN_TAPE_H_

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace comera::golden {

// Scalars in double precision that remember what they were computed from, so
// that gradients follow from the chain rule alone and no formula of a backward
// pass is needed (reverse-mode differentiation).
//
//   Tape tape;
//   const Tape::Id x = tape.Leaf(3);
//   const Tape::Id y = tape.Multiply(x, x);
//   tape.Gradients(y)[x];  // 6
class Tape {
 public:
  // Number of a scalar, in the order in which they were made.
  using Id = int32_t;
  using Row = std::vector<Id>;
  struct Slope {
    Id argument;
    double slope;
  };

  Id Leaf(double value) { return Record(value, {}); }
  double value(Id id) const { return values_[id]; }

  Id Add(Id a, Id b);
  Id Multiply(Id a, Id b);
  // scale * a + shift.
  Id Linear(Id a, double scale, double shift);
  Id Sum(const Row& terms);
  // Sum of a[i] * b[i], of as many as `a` has.
  Id Dot(const Row& a, const Row& b);
  // f(a), given f's value and slope there.
  Id Function(Id a, double value, double slope) {
    return Record(value, {{a, slope}});
  }

  // The gradient of one scalar with respect to every scalar of the tape.
  std::vector<double> Gradients(Id of) const;

 private:
  Id Record(double value, std::initializer_list<Slope> slopes);
  // Makes the scalar whose slopes are already at the end of slopes_.
  Id Finish(double value);

  std::vector<double> values_;
  // The slopes of scalar i are [begins_[i], begins_[i + 1]).
  std::vector<int64_t> begins_ = {0};
  std::vector<Slope> slopes_;
};

}  // namespace comera::golden

#endif  // COMERA_TESTS_GOLDEN_TAPE_H_
