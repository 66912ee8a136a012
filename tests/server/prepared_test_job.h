#ifndef COMERA_TESTS_SERVER_PREPARED_TEST_JOB_H_
#define COMERA_TESTS_SERVER_PREPARED_TEST_JOB_H_

#include <string>
#include <utility>

#include "proto/job_defaults.h"
#include "server/coordinator/job/prepared_job.h"

namespace comera::server {

// A valid specification as the coordinator takes it.
inline PreparedJob PreparedTestJob(v1::JobSpec spec,
                                   std::string request_id = "",
                                   std::string user = "") {
  return PreparedJob(WithDefaults(std::move(spec)), std::move(request_id),
                     {std::move(user), "", /*administers=*/true});
}

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_PREPARED_TEST_JOB_H_
