// A library with NVML's functions. The test that loads it sets their results
// through fake_nvml_state. A second build of it plays an old driver.
#include "tests/fakes/nvml/fake_nvml.h"

#include <cstdlib>
#include <cstring>
#include <string>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using comera::worker::FakeNvmlState;
using namespace comera::worker::nvml;  // NOLINT: the library's own names

// Programs that do not know the fake get the number of GPUs in a variable.
FakeNvmlState FirstState() {
  FakeNvmlState first;
  const char* const count = std::getenv("FAKE_NVML_GPUS");
  for (int i = 0; count != nullptr && i < std::atoi(count); ++i) {
    FakeNvmlState::Gpu gpu;
    gpu.uuid = "GPU-" + std::to_string(i);
    gpu.name = "Fake GPU";
    gpu.total = 80ull << 30;
    first.gpus.push_back(gpu);
  }
  return first;
}

FakeNvmlState state = FirstState();

int Fails(const char* function) {
  const auto found = state.errors.find(function);
  return found == state.errors.end() ? kSuccess : found->second;
}

int IndexOf(Device device) {
  return static_cast<int>(reinterpret_cast<size_t>(device)) - 1;
}
FakeNvmlState::Gpu& Of(Device device) { return state.gpus[IndexOf(device)]; }
Device HandleOf(int index) {
  return reinterpret_cast<Device>(static_cast<size_t>(index + 1));
}

int Put(const std::string& text, char* to, unsigned size) {
  if (text.size() >= size) return kInsufficientSize;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return kSuccess;
}

}  // namespace

#define RETURN_IF_FAILS() \
  if (const int error = Fails(__func__); error != kSuccess) return error

EXPORT FakeNvmlState* fake_nvml_state() { return &state; }

EXPORT int nvmlInit_v2() {
  RETURN_IF_FAILS();
  ++state.initialised;
  return kSuccess;
}
EXPORT int nvmlShutdown() {
  --state.initialised;
  return kSuccess;
}
EXPORT const char* nvmlErrorString(int) { return "a text of NVML"; }
EXPORT int nvmlDeviceGetCount_v2(unsigned* count) {
  RETURN_IF_FAILS();
  *count = static_cast<unsigned>(state.gpus.size());
  return kSuccess;
}
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  RETURN_IF_FAILS();
  *device = HandleOf(static_cast<int>(index));
  return kSuccess;
}
EXPORT int nvmlDeviceGetUUID(Device device, char* to, unsigned size) {
  RETURN_IF_FAILS();
  return Put(Of(device).uuid, to, size);
}
EXPORT int nvmlDeviceGetName(Device device, char* to, unsigned size) {
  RETURN_IF_FAILS();
  return Put(Of(device).name, to, size);
}
EXPORT int nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
  RETURN_IF_FAILS();
  return Put(Of(device).pci_bus_id, info->bus_id, sizeof(info->bus_id));
}
EXPORT int nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  RETURN_IF_FAILS();
  const FakeNvmlState::Gpu& gpu = Of(device);
  memory->total = gpu.total;
  memory->free = gpu.total - gpu.used;
  memory->used = gpu.used;
  return kSuccess;
}
#ifndef COMERA_OLD_DRIVER
EXPORT int nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* memory) {
  RETURN_IF_FAILS();
  if (memory->version != kMemoryV2)
    return 25;  // NVML_ERROR_ARGUMENT_VERSION_MISMATCH
  const FakeNvmlState::Gpu& gpu = Of(device);
  memory->total = gpu.total;
  memory->reserved = gpu.reserved;
  memory->free = gpu.total - gpu.used - gpu.reserved;
  memory->used = gpu.used + gpu.reserved;
  return kSuccess;
}
EXPORT int nvmlDeviceGetTotalEccErrors(Device device, int type, int counter,
                                       unsigned long long* count) {
  RETURN_IF_FAILS();
  if (type != kUncorrected || counter != kVolatile) return 2;
  *count = Of(device).ecc;
  return kSuccess;
}
EXPORT int nvmlDeviceGetTemperature(Device device, int, unsigned* degrees) {
  RETURN_IF_FAILS();
  *degrees = Of(device).temperature;
  return kSuccess;
}
EXPORT int nvmlDeviceGetUtilizationRates(Device device, Utilization* use) {
  RETURN_IF_FAILS();
  *use = {Of(device).use, 0};
  return kSuccess;
}
EXPORT int nvmlDeviceGetPowerUsage(Device device, unsigned* milliwatts) {
  RETURN_IF_FAILS();
  *milliwatts = Of(device).milliwatts;
  return kSuccess;
}
EXPORT int nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  RETURN_IF_FAILS();
  for (size_t i = 0; i < state.gpus.size(); ++i) {
    if (state.gpus[i].uuid != uuid) continue;
    *device = HandleOf(static_cast<int>(i));
    return kSuccess;
  }
  return kNotFound;
}
EXPORT int nvmlDeviceGetTotalEnergyConsumption(
    Device device, unsigned long long* millijoules) {
  RETURN_IF_FAILS();
  if (IndexOf(device) >= static_cast<int>(state.gpus.size())) return kNotFound;
  *millijoules = Of(device).millijoules;
  return kSuccess;
}
EXPORT int nvmlDeviceGetTemperatureThreshold(Device, int kind,
                                             unsigned* degrees) {
  RETURN_IF_FAILS();
  if (kind != kSlowdown) return 2;
  *degrees = 90;
  return kSuccess;
}
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(Device device,
                                                   unsigned* count,
                                                   ProcessInfo* to) {
  RETURN_IF_FAILS();
  const auto& processes = Of(device).processes;
  const unsigned room = *count;
  *count = static_cast<unsigned>(processes.size());
  if (processes.empty()) return kSuccess;
  if (to == nullptr || room < processes.size()) return kInsufficientSize;
  std::memcpy(to, processes.data(), processes.size() * sizeof(ProcessInfo));
  return kSuccess;
}
EXPORT int nvmlDeviceGetTopologyCommonAncestor(Device a, Device b, int* level) {
  RETURN_IF_FAILS();
  *level = Of(a).board == Of(b).board ? kOneSwitch : 50;
  return kSuccess;
}
EXPORT int nvmlDeviceGetNvLinkState(Device device, unsigned link, int* active) {
  RETURN_IF_FAILS();
  if (link >= Of(device).links.size()) return 2;
  *active = Of(device).links[link] != FakeNvmlState::kDown;
  return kSuccess;
}
EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(Device device, unsigned link,
                                               int* type) {
  RETURN_IF_FAILS();
  *type = Of(device).links[link] == FakeNvmlState::kSwitch ? kNvlinkSwitch
                                                           : kNvlinkGpu;
  return kSuccess;
}
EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device device, unsigned link,
                                               PciInfo* info) {
  RETURN_IF_FAILS();
  const int peer = Of(device).links[link];
  if (peer < 0) return kNotSupported;
  return Put(state.gpus[peer].pci_bus_id, info->bus_id, sizeof(info->bus_id));
}
EXPORT int nvmlEventSetCreate(EventSet* set) {
  RETURN_IF_FAILS();
  ++state.event_sets;
  *set = reinterpret_cast<EventSet>(&state);
  return kSuccess;
}
EXPORT int nvmlDeviceRegisterEvents(Device, unsigned long long types,
                                    EventSet) {
  RETURN_IF_FAILS();
  return types == kXidEvent ? kSuccess : 2;
}
EXPORT int nvmlEventSetWait_v2(EventSet, EventData* event, unsigned) {
  RETURN_IF_FAILS();
  if (state.xids.empty()) return kTimeout;
  event->device = HandleOf(state.xids.front().first);
  event->type = kXidEvent;
  event->data = state.xids.front().second;
  state.xids.erase(state.xids.begin());
  return kSuccess;
}
EXPORT int nvmlEventSetFree(EventSet) {
  --state.event_sets;
  return kSuccess;
}
#endif
