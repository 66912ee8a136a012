// job.h and gRPC: for the server, the worker daemon and the client. The
// services' own headers are not here: each compilation instantiates the
// templates that inline functions of a precompiled header name, and for those
// services and for JSON that takes longer than to parse what a source needs.
#include "deploy/bazel/pch/job.h"
#include "grpcpp/grpcpp.h"
