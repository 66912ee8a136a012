// job.h and GoogleTest: for tests.
#include "deploy/bazel/pch/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
