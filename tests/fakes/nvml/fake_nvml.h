// The state of the fake NVML library, shared between it and the test.
#ifndef COMERA_TESTS_FAKES_NVML_FAKE_NVML_H_
#define COMERA_TESTS_FAKES_NVML_FAKE_NVML_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "worker/gpu/nvml_functions.h"

namespace comera::worker {

struct FakeNvmlState {
  // Values for the other end of a link that are not indices of GPUs.
  static constexpr int kDown = -1, kSwitch = -2;

  struct Gpu {
    std::string uuid, name, pci_bus_id;
    unsigned long long total = 0, used = 0, reserved = 0, ecc = 0;
    unsigned temperature = 40, use = 0, milliwatts = 70000;
    unsigned long long millijoules = 0;
    int board = 0;
    std::vector<int> links;
    std::vector<nvml::ProcessInfo> processes;
  };
  std::vector<Gpu> gpus;
  // The Xid events that wait to be read: GPU and number.
  std::vector<std::pair<int, unsigned long long>> xids;
  // The results of functions, by exported name.
  std::map<std::string, int> errors;
  int initialised = 0, event_sets = 0;
};

}  // namespace comera::worker

#endif  // COMERA_TESTS_FAKES_NVML_FAKE_NVML_H_
