#ifndef COMERA_SERVER_VIEW_JOB_VIEW_H_
#define COMERA_SERVER_VIEW_JOB_VIEW_H_

#include "comera/v1/job.pb.h"

namespace comera::server {

// Makes `view`, which is empty, the job as JOB_VIEW_BASIC shows it.
void ViewBasic(const v1::Job& job, v1::Job* view);

}  // namespace comera::server

#endif  // COMERA_SERVER_VIEW_JOB_VIEW_H_
