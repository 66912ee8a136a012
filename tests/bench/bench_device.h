// The flags --device and --precision of the benchmarks.
#ifndef COMERA_TESTS_BENCH_BENCH_DEVICE_H_
#define COMERA_TESTS_BENCH_BENCH_DEVICE_H_

#include <string>

#include "CLI/CLI.hpp"
#include "comera/v1/job.pb.h"

namespace comera::bench {

// Adds both flags, whose defaults are the present values; only known names are
// accepted.
void AddDeviceFlags(CLI::App* app, std::string* device, std::string* precision);

// Parse a name that the flags have accepted.
v1::ResourceSpec::Device ParseDevice(const std::string& name);
v1::TrainingSpec::Precision ParsePrecision(const std::string& name);

}  // namespace comera::bench

#endif  // COMERA_TESTS_BENCH_BENCH_DEVICE_H_
