#ifndef COMERA_COMMON_CLASSIFICATION_FIGURES_H_
#define COMERA_COMMON_CLASSIFICATION_FIGURES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/estimate.h"

namespace comera {

// Both figures take the true and the predicted class of each sample, 0 to
// classes - 1; both vectors are equally long. Their errors are those of the
// delta method: the figure is a smooth function of the shares of the confusion
// matrix's cells, which are those of a multinomial sample. A figure at the end
// of its range has an error of 0.

// F1 of class 1 if there are two classes, or else the mean of F1 over the
// classes that occur, as true or as predicted ones. Returns nothing where no
// class counts.
std::optional<Estimate> F1Score(const std::vector<int32_t>& truths,
                                const std::vector<int32_t>& predictions,
                                int32_t classes);

// Matthews correlation coefficient, in Gorodkin's form ("Comparing two
// K-category assignments by a K-category correlation coefficient", 2004) for
// more than two classes; 0 where all truths or all predictions are one class.
// Returns nothing without samples.
std::optional<Estimate> MatthewsCorrelation(
    const std::vector<int32_t>& truths, const std::vector<int32_t>& predictions,
    int32_t classes);

}  // namespace comera

#endif  // COMERA_COMMON_CLASSIFICATION_FIGURES_H_
