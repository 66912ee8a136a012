// Defines the flags --device and --precision and parses their values.

#include "tests/bench/bench_device.h"

namespace comera::bench {

void AddDeviceFlags(CLI::App* app, std::string* device,
                    std::string* precision) {
  app->add_option("--device", *device,
                  "where to run; cuda: the first that CUDA_VISIBLE_DEVICES "
                  "leaves, in a build with --config=cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app->add_option("--precision", *precision, "of matrix products")
      ->capture_default_str()
      ->check(CLI::IsMember({"fp32", "tf32", "bf16"}));
}

v1::ResourceSpec::Device ParseDevice(const std::string& name) {
  return name == "cuda" ? v1::ResourceSpec::GPU : v1::ResourceSpec::CPU;
}

v1::TrainingSpec::Precision ParsePrecision(const std::string& name) {
  if (name == "bf16") return v1::TrainingSpec::BF16;
  return name == "tf32" ? v1::TrainingSpec::TF32 : v1::TrainingSpec::FP32;
}

}  // namespace comera::bench
