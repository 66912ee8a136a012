#ifndef COMERA_WORKER_TRAINER_DATA_CLICKS_CRITEO_TSV_H_
#define COMERA_WORKER_TRAINER_DATA_CLICKS_CRITEO_TSV_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "comera/v1/job.pb.h"
#include "worker/trainer/data/clicks/click_table.h"

namespace comera::trainer {

inline constexpr int kCriteoIntegers = 13;
inline constexpr int kCriteoCategories = 26;

// Reads the files of `spec` (defaults filled in) into memory, preprocessed as
// REFERENCE.md says: integers x become log(x + 1), with empty or negative ones
// as 0; the values of each categorical column, hexadecimal or empty, are
// numbered in order of first appearance over all files, then limited to
// max_table_rows (see CategoryDictionary).
//
// InvalidArgument: the spec; NotFound: a file; DataLoss: malformed contents,
// with file, line and column, or too few rows to split; ResourceExhausted: more
// rows or values than can be kept.
absl::StatusOr<ClickTable> ReadCriteoTsv(
    const v1::CriteoTsv& spec,
    const std::function<void(const std::string&)>& on_activity);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DATA_CLICKS_CRITEO_TSV_H_
