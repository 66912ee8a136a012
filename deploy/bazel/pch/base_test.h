// base.h and GoogleTest: for tests.
#include "deploy/bazel/pch/base.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
