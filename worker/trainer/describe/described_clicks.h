#ifndef COMERA_WORKER_TRAINER_DESCRIBE_DESCRIBED_CLICKS_H_
#define COMERA_WORKER_TRAINER_DESCRIBE_DESCRIBED_CLICKS_H_

#include <string>
#include <vector>

#include "comera/v1/job.pb.h"
#include "worker/trainer/data/batch/click_shape.h"

namespace comera::trainer {

// The shape of a click log that is not read; `spec` has its defaults filled in.
// The tables of Criteo files are taken to be as large as Criteo Kaggle's, which
// *assumptions then says.
ClickShape DescribedClicks(const v1::JobSpec& spec,
                           std::vector<std::string>* assumptions);

}  // namespace comera::trainer

#endif  // COMERA_WORKER_TRAINER_DESCRIBE_DESCRIBED_CLICKS_H_
