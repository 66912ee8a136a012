// Models as the API shows them. Pure functions.
#ifndef COMERA_SERVER_API_MODEL_LISTING_H_
#define COMERA_SERVER_API_MODEL_LISTING_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "comera/v1/model_service.pb.h"
#include "server/view/job_directory.h"

namespace comera::server {

// job.models(index).
v1::Model ShowModel(const v1::Job& job, int index);

// Models of jobs that are `visible`. InvalidArgument: page size, token, job.
absl::StatusOr<v1::ListModelsResponse> ListModels(
    const JobDirectory& directory, const v1::ListModelsRequest& request,
    const JobDirectory::Filter& visible);

// InvalidArgument: page size or token.
absl::StatusOr<v1::ListJobCheckpointsResponse> ListCheckpoints(
    const v1::Job& job, const v1::ListJobCheckpointsRequest& request);

// Adds what a model's config.json says: ranks, step, figures. The bytes come
// from a worker and may be anything. DataLoss: they are no such file.
absl::Status AddConfig(const std::string& config, v1::Model* model);

// Finds `jobs/{job}/models/{model}` and its job. Null: there is no such model;
// `job` is set if there is at least the job. On the loop.
const v1::Artifact* FindModel(const JobDirectory& directory,
                              const std::string& name, const v1::Job** job);

}  // namespace comera::server

#endif  // COMERA_SERVER_API_MODEL_LISTING_H_
