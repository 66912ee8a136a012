// base.h, and the messages of jobs and their progress: for the trainer.
#include "comera/v1/job.pb.h"
#include "comera/v1/progress.pb.h"
#include "deploy/bazel/pch/base.h"
