// job.h, gRPC, and the service that most calls go to: for the server, the
// worker daemon and the client.
#include "comera/v1/training_service.grpc.pb.h"
#include "deploy/bazel/pch/job.h"
#include "google/protobuf/util/json_util.h"
#include "grpcpp/grpcpp.h"
#include "nlohmann/json.hpp"
