#ifndef COMERA_TESTS_WORKER_TRAINER_MODEL_GRADIENT_CHECK_H_
#define COMERA_TESTS_WORKER_TRAINER_MODEL_GRADIENT_CHECK_H_

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/worker/trainer/model/small_models.h"
#include "worker/trainer/data/batch/batch.h"

namespace comera::trainer {

// Larger weights than at the start of training, with rank entries that differ:
// attention takes part.
void EnlargeWeights(TestModel& m);

// Expects the loss to change along the gradient of every parameter as the
// gradient says. Returns the number of parameters that have one; the names of
// all others are expected to match `without`: at first biases of keys, as
// softmax does not see a constant.
int ExpectGradientsAreDerivatives(
    TestModel& m, const Batch& batch,
    const ::testing::Matcher<std::string>& without =
        ::testing::HasSubstr("key.bias"));

// Expects values that differ by at most `relative` times the largest expected.
void ExpectNear(const std::vector<float>& actual,
                const std::vector<float>& expected, double relative);

}  // namespace comera::trainer

#endif  // COMERA_TESTS_WORKER_TRAINER_MODEL_GRADIENT_CHECK_H_
