// Fills in the defaults of a DLRM and of click logs.
#ifndef COMERA_PROTO_DLRM_DEFAULTS_H_
#define COMERA_PROTO_DLRM_DEFAULTS_H_

#include <cstdint>
#include <vector>

#include "comera/v1/job.pb.h"

namespace comera {

// The number of distinct values in each of the 26 categorical columns of Criteo
// Kaggle.
const std::vector<int64_t>& CriteoKaggleRows();

void FillDlrm(v1::DlrmSpec& dlrm);
// Fills in the defaults of the click log that `data` names.
void FillClickLog(v1::DataSpec& data);

}  // namespace comera

#endif  // COMERA_PROTO_DLRM_DEFAULTS_H_
