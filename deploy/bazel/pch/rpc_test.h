// rpc.h and GoogleTest: for tests.
#include "deploy/bazel/pch/rpc.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
