// The flags --device and --precision of the benchmarks.
#ifndef COMERA_TESTS_BENCH_BENCH_DEVICE_H_
#define COMERA_TESTS_BENCH_BENCH_DEVICE_H_

#include <string>

#include "CLI/CLI.hpp"
#include "comera/v1/job.pb.h"

namespace comera::bench {

// Adds both, with what they hold as the default; only known names are taken.
void AddDeviceFlags(CLI::App* app, std::string* device, std::string* precision);

// Of names that the flags have taken.
v1::ResourceSpec::Device ParseDevice(const std::string& name);
v1::TrainingSpec::Precision ParsePrecision(const std::string& name);

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_BENCH_DEVICE_H_
